//! The socket at which a container's first process calls the host. It is a file, which the container sees as a mount.

use crate::Error;
use cellblock_sandbox::readiness;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use std::fs::{DirBuilder, File, Permissions, set_permissions};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Rings once.
#[derive(Debug)]
pub(crate) struct Telephone {
    socket: AsyncFd<OwnedFd>,
    directory: PathBuf,
}

impl Telephone {
    /// The file's name in its directory.
    pub(crate) const NAME: &'static str = "host";

    /// Makes a socket below a session's directory, which is closed to other users from here on: whoever calls first is the session.
    pub(crate) fn new(session: &Path) -> Result<Telephone, Error> {
        let directory = session.join("door");
        let made = set_permissions(session, Permissions::from_mode(0o700))
            .and_then(|()| DirBuilder::new().mode(0o755).create(&directory))
            .and_then(|()| set_permissions(&directory, Permissions::from_mode(0o755)))
            .and_then(|()| make(&directory));
        match made {
            Ok(socket) => Ok(Telephone { socket, directory }),
            Err(source) => Err(Error::Storage {
                what: "making a socket in",
                path: directory,
                source,
            }),
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Waits for the call.
    pub(crate) async fn answer(&self) -> Result<OwnedFd, Error> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        self.socket
            .async_io(Interest::READABLE, |socket| Ok(accept_with(socket, flags)?))
            .await
            .map_err(Error::system("waiting for the container"))
    }
}

/// The process that called; `None` where it is not to be seen from here, as when this is a container too.
pub(crate) fn caller(call: &OwnedFd) -> Option<u32> {
    let call = std::os::unix::net::UnixStream::from(call.try_clone().ok()?);
    let caller = tokio::net::UnixStream::from_std(call).ok()?.peer_cred();
    let pid = u32::try_from(caller.ok()?.pid()?).ok()?;
    (pid > 0).then_some(pid)
}

fn make(directory: &Path) -> io::Result<AsyncFd<OwnedFd>> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    // A socket's path may have 107 bytes, and ours may be longer: this one is short.
    let opened = File::open(directory)?;
    let short = format!("/proc/self/fd/{}/{}", opened.as_raw_fd(), Telephone::NAME);
    bind(&socket, &SocketAddrUnix::new(short)?)?;
    set_permissions(
        directory.join(Telephone::NAME),
        Permissions::from_mode(0o666),
    )?;
    listen(&socket, 1)?;
    readiness(socket)
}

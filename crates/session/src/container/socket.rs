//! The socket on which a container's first process connects to the host. The socket is a file in a
//! directory that is mounted into the container.

use crate::Error;
use cellblock_sandbox::async_fd;
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

/// A listening socket for one connection: that of the container's first process.
#[derive(Debug)]
pub(crate) struct ContainerSocket {
    listener: AsyncFd<OwnedFd>,
    directory: PathBuf,
}

impl ContainerSocket {
    /// The name of the socket's file in its directory.
    pub(crate) const FILE_NAME: &'static str = "host";

    /// Creates the socket below a session's directory.
    ///
    /// The session's directory is closed to other users from here on: the first process that connects is
    /// taken for the session's init.
    pub(crate) fn new(session_directory: &Path) -> Result<ContainerSocket, Error> {
        let directory = session_directory.join("socket");
        let listener = set_permissions(session_directory, Permissions::from_mode(0o700))
            .and_then(|()| DirBuilder::new().mode(0o755).create(&directory))
            .and_then(|()| set_permissions(&directory, Permissions::from_mode(0o755)))
            .and_then(|()| listen_in(&directory));
        match listener {
            Ok(listener) => Ok(ContainerSocket {
                listener,
                directory,
            }),
            Err(source) => Err(Error::Storage {
                what: "making a socket in",
                path: directory,
                source,
            }),
        }
    }

    /// The directory that is mounted into the container.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Waits for the connection of the container's first process.
    pub(crate) async fn accept(&self) -> Result<OwnedFd, Error> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        self.listener
            .async_io(Interest::READABLE, |socket| Ok(accept_with(socket, flags)?))
            .await
            .map_err(Error::system("waiting for the container"))
    }
}

/// The process id of the process that connected, as this host sees it. `None` where the process cannot
/// be seen from here, as when the host runs in a container itself.
pub(crate) fn peer_process(connection: &OwnedFd) -> Option<u32> {
    let connection = std::os::unix::net::UnixStream::from(connection.try_clone().ok()?);
    let peer = tokio::net::UnixStream::from_std(connection)
        .ok()?
        .peer_cred();
    let pid = u32::try_from(peer.ok()?.pid()?).ok()?;
    (pid > 0).then_some(pid)
}

fn listen_in(directory: &Path) -> io::Result<AsyncFd<OwnedFd>> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    // The path of a socket may have 107 bytes, and the directory's path may be longer. The path through
    // the open directory is short.
    let opened = File::open(directory)?;
    let name = ContainerSocket::FILE_NAME;
    let short_path = format!("/proc/self/fd/{}/{name}", opened.as_raw_fd());
    bind(&socket, &SocketAddrUnix::new(short_path)?)?;
    set_permissions(directory.join(name), Permissions::from_mode(0o666))?;
    listen(&socket, 1)?;
    async_fd(socket)
}

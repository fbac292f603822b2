//! What a session and the host speak through.

use crate::Error;
use crate::checkpoint::standby_channel::inode_of;
use crate::files::borrowed::BorrowedDirectory;
use crate::files::disk::Processes;
use crate::files::history::ChangeNotice;
use crate::network::OpenedListener;
use crate::wire::channel::Channel;
use crate::wire::packets::Packets;
use crate::wire::pipes::Pipes;
use cellblock_protocol::guest::FromHead;
use cellblock_sandbox::{Cgroup, FromInit, packet_pair, stream_pair};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A session that lives, seen from here.
pub(crate) struct SpawnedSession {
    pub(crate) channel: Channel,
    pub(crate) init: Packets,
    pub(crate) pipes: Pipes,
    pub(crate) cgroup: Option<Arc<Cgroup>>,
    pub(crate) processes: Processes,
    /// The head's process id inside.
    pub(crate) head: u32,
    /// On which init asks before files of the user's are changed.
    pub(crate) preserve_socket: Option<OwnedFd>,
    pub(crate) borrowed: Option<BorrowedDirectory>,
    /// Its listeners for the network, which no guard serves yet.
    pub(crate) opened_listeners: Vec<OpenedListener>,
}

/// What a session and the host speak through: the host's ends.
pub(crate) struct Sockets {
    channel: Channel,
    init: Packets,
    pipes: Pipes,
    preserve_socket: Option<OwnedFd>,
    opened_listeners: Vec<OpenedListener>,
}

/// The session's ends, with what else goes to its init.
pub(crate) struct FarSockets {
    ends: Vec<OwnedFd>,
}

impl Sockets {
    /// Makes all of them.
    pub(crate) fn new(
        cgroup: Option<&Cgroup>,
        mount: Option<OwnedFd>,
        change_notice: ChangeNotice,
    ) -> Result<(Sockets, FarSockets), Error> {
        let (control, far_control) = packet_pair()?;
        let (near_channel, far_channel) = stream_pair()?;
        let channel = inode_of(&far_channel)
            .and_then(|far| Channel::new(near_channel, far))
            .map_err(Error::system("listening to the head"))?;
        let (pipes, [out, error]) = Pipes::new().map_err(Error::system("making pipes"))?;
        let mut ends = vec![far_control, far_channel, out, error];
        ends.extend(mount);
        let (preserve_socket, far_preserve_socket) = match change_notice {
            ChangeNotice::BeforeChange => {
                packet_pair().map(|(near, far)| (Some(near), Some(far)))?
            }
            ChangeNotice::Never => (None, None),
        };
        ends.extend(far_preserve_socket);
        ends.extend(
            cgroup
                .map(Cgroup::entrances)
                .transpose()?
                .unwrap_or_default(),
        );
        let near = Sockets {
            channel,
            init: Packets::new(control, 4096).map_err(Error::system("listening to init"))?,
            pipes,
            preserve_socket,
            opened_listeners: Vec::new(),
        };
        Ok((near, FarSockets { ends }))
    }

    /// Those to a session in a container, whose init is at the other end of `init`, and what that is to be sent.
    pub(crate) fn to_container(init: OwnedFd) -> Result<(Sockets, FarSockets), Error> {
        let (near_channel, far_channel) = stream_pair()?;
        let (pipes, [out, error]) = Pipes::new().map_err(Error::system("making pipes"))?;
        let near = Sockets {
            channel: inode_of(&far_channel)
                .and_then(|far| Channel::new(near_channel, far))
                .map_err(Error::system("listening to the head"))?,
            init: Packets::new(init, 4096).map_err(Error::system("listening to the container"))?,
            pipes,
            preserve_socket: None,
            opened_listeners: Vec::new(),
        };
        let ends = vec![far_channel, out, error];
        Ok((near, FarSockets { ends }))
    }

    /// Sends init its ends of the sockets.
    pub(crate) async fn hand_over(&self, far: FarSockets) -> Result<(), Error> {
        let sent = self.init.send(b"descriptors", &far.descriptors()).await;
        sent.map_err(Error::system("speaking with the container"))
    }

    /// Waits until the session stands and its interpreter is there. Returns the head's process id inside, and whether init asks
    /// before files are changed.
    pub(crate) async fn wait_until_ready(&mut self) -> Result<(u32, ChangeNotice), Error> {
        let started = loop {
            let gone = while_waiting("waiting for the session's init");
            let mut packet = self.init.receive().await.map_err(gone)?;
            match (
                FromInit::from_bytes(&packet.bytes)?,
                packet.descriptors.pop(),
            ) {
                (FromInit::Born { head, asks: true }, _) => {
                    break (head, ChangeNotice::BeforeChange);
                }
                (FromInit::Born { head, asks: false }, _) => break (head, ChangeNotice::Never),
                (FromInit::LoopbackSocket { number }, Some(socket)) => {
                    self.opened_listeners.push((number, socket))
                }
                _ => return Err(cellblock_sandbox::Error::Protocol { process: "init" }.into()),
            }
        };
        match self.channel.receive().await {
            Ok(FromHead::Ready { .. }) => Ok(started),
            Ok(_) => Err(cellblock_sandbox::Error::Protocol {
                process: "the head",
            }
            .into()),
            Err(error) => Err(while_waiting("waiting for the session's interpreter")(
                error,
            )),
        }
    }

    /// The socket on which init asks before files are changed, for who answers.
    pub(crate) fn take_preserve_socket(&mut self) -> Option<OwnedFd> {
        self.preserve_socket.take()
    }

    pub(crate) fn with(
        self,
        cgroup: Option<Arc<Cgroup>>,
        processes: Processes,
        head: u32,
    ) -> SpawnedSession {
        let Sockets {
            channel,
            init,
            pipes,
            preserve_socket,
            opened_listeners,
        } = self;
        SpawnedSession {
            channel,
            init,
            pipes,
            cgroup,
            processes,
            head,
            preserve_socket,
            borrowed: None,
            opened_listeners,
        }
    }
}

/// The end of a stream says little to a person.
fn while_waiting(what: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |error| {
        let source = match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                io::Error::new(error.kind(), "its processes have ended")
            }
            _ => error,
        };
        Error::System { what, source }
    }
}

impl FarSockets {
    /// In the order in which the native code expects them.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.ends.iter().map(OwnedFd::as_fd).collect()
    }
}

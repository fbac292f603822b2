//! What a session and the host speak through.

use crate::Error;
use crate::checkpoint::standby_channel::inode_of;
use crate::files::borrowed::Loan;
use crate::files::disk::Processes;
use crate::files::history::Asked;
use crate::network::Opened;
use crate::wire::channel::Channel;
use crate::wire::packets::Packets;
use crate::wire::pipes::Pipes;
use cellblock_protocol::guest::FromHead;
use cellblock_sandbox::{Cgroup, FromInit, packet_pair, stream_pair};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A session that lives, seen from here.
pub(crate) struct Born {
    pub(crate) channel: Channel,
    pub(crate) init: Packets,
    pub(crate) pipes: Pipes,
    pub(crate) cgroup: Option<Arc<Cgroup>>,
    pub(crate) processes: Processes,
    /// The head's process id inside.
    pub(crate) head: u32,
    /// On which init asks before files of the user's are changed.
    pub(crate) keeper: Option<OwnedFd>,
    pub(crate) loan: Option<Loan>,
    /// Its ways to the network, which nobody serves yet.
    pub(crate) opened: Vec<Opened>,
}

/// What a session and the host speak through: the host's ends.
pub(crate) struct Sockets {
    channel: Channel,
    init: Packets,
    pipes: Pipes,
    keeper: Option<OwnedFd>,
    opened: Vec<Opened>,
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
        asked: Asked,
    ) -> Result<(Sockets, FarSockets), Error> {
        let (control, far_control) = packet_pair()?;
        let (near_channel, far_channel) = stream_pair()?;
        let channel = inode_of(&far_channel)
            .and_then(|far| Channel::new(near_channel, far))
            .map_err(Error::system("listening to the head"))?;
        let (pipes, [out, error]) = Pipes::new().map_err(Error::system("making pipes"))?;
        let mut ends = vec![far_control, far_channel, out, error];
        ends.extend(mount);
        let (keeper, far_keeper) = match asked {
            Asked::Before => packet_pair().map(|(near, far)| (Some(near), Some(far)))?,
            Asked::Never => (None, None),
        };
        ends.extend(far_keeper);
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
            keeper,
            opened: Vec::new(),
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
            keeper: None,
            opened: Vec::new(),
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
    pub(crate) async fn up(&mut self) -> Result<(u32, Asked), Error> {
        let born = loop {
            let gone = while_waiting("waiting for the session's init");
            let mut packet = self.init.receive().await.map_err(gone)?;
            match (
                FromInit::from_bytes(&packet.bytes)?,
                packet.descriptors.pop(),
            ) {
                (FromInit::Born { head, asks: true }, _) => break (head, Asked::Before),
                (FromInit::Born { head, asks: false }, _) => break (head, Asked::Never),
                (FromInit::Door { number }, Some(socket)) => self.opened.push((number, socket)),
                _ => return Err(cellblock_sandbox::Error::Protocol { process: "init" }.into()),
            }
        };
        match self.channel.receive().await {
            Ok(FromHead::Ready { .. }) => Ok(born),
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
    pub(crate) fn take_keeper(&mut self) -> Option<OwnedFd> {
        self.keeper.take()
    }

    pub(crate) fn with(self, cgroup: Option<Arc<Cgroup>>, processes: Processes, head: u32) -> Born {
        let Sockets {
            channel,
            init,
            pipes,
            keeper,
            opened,
        } = self;
        Born {
            channel,
            init,
            pipes,
            cgroup,
            processes,
            head,
            keeper,
            loan: None,
            opened,
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

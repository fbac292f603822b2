//! The sockets and pipes between a session and the host.

use crate::checkpoint::standby_channel::inode_of;
use crate::files::borrowed::BorrowedDirectory;
use crate::files::found_processes::Processes;
use crate::files::history::ChangeNotice;
use crate::network::OpenedListener;
use crate::wire::channel::Channel;
use crate::wire::init_link::{CheckFork, InitLink, Started, ended_while};
use crate::wire::pipes::Pipes;
use crate::{Error, ForkRefusal};
use cellblock_protocol::guest::FromHead;
use cellblock_sandbox::{Cgroup, ForkFinding, SpawnRequest, packet_pair, stream_pair};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// A session that lives, seen from here.
pub(crate) struct SpawnedSession {
    pub(crate) channel: Channel,
    pub(crate) init: InitLink,
    pub(crate) pipes: Pipes,
    pub(crate) cgroup: Option<Arc<Cgroup>>,
    pub(crate) processes: Processes,
    /// The head's process id inside.
    pub(crate) head: u32,
    /// On which init asks before files of the user's are changed.
    pub(crate) preserve_socket: Option<OwnedFd>,
    pub(crate) borrowed: Option<BorrowedDirectory>,
    /// The session's listeners for the network, which no guard serves yet.
    pub(crate) opened_listeners: Vec<OpenedListener>,
    /// What its processes were made by; `None` in a container.
    pub(crate) spawn_request: Option<SpawnRequest>,
}

/// A session whose interpreter is there.
pub(crate) struct ReadyHead {
    /// The head's process id inside.
    pub(crate) pid: u32,
    /// Whether init asks before files are changed.
    pub(crate) change_notice: ChangeNotice,
    /// What a fork does not have of its parent.
    pub(crate) not_copied: Vec<String>,
}

/// The host's ends of the sockets and pipes between a session and the host.
pub(crate) struct Sockets {
    channel: Channel,
    init: InitLink,
    pipes: Pipes,
    preserve_socket: Option<OwnedFd>,
    opened_listeners: Vec<OpenedListener>,
}

/// The session's ends, with what else goes to its init.
pub(crate) struct SessionEnds {
    ends: Vec<OwnedFd>,
}

impl Sockets {
    /// Makes all of them.
    pub(crate) fn new(
        cgroup: Option<&Cgroup>,
        mount: Option<OwnedFd>,
        change_notice: ChangeNotice,
    ) -> Result<(Sockets, SessionEnds), Error> {
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
            init: InitLink::new(control).map_err(Error::system("listening to init"))?,
            pipes,
            preserve_socket,
            opened_listeners: Vec::new(),
        };
        Ok((near, SessionEnds { ends }))
    }

    /// Makes the sockets to a session in a container, whose init is at the other end of `init`, and the ends that are to be sent to it.
    pub(crate) fn to_container(init: OwnedFd) -> Result<(Sockets, SessionEnds), Error> {
        let (near_channel, far_channel) = stream_pair()?;
        let (pipes, [out, error]) = Pipes::new().map_err(Error::system("making pipes"))?;
        let near = Sockets {
            channel: inode_of(&far_channel)
                .and_then(|far| Channel::new(near_channel, far))
                .map_err(Error::system("listening to the head"))?,
            init: InitLink::new(init).map_err(Error::system("listening to the container"))?,
            pipes,
            preserve_socket: None,
            opened_listeners: Vec::new(),
        };
        let ends = vec![far_channel, out, error];
        Ok((near, SessionEnds { ends }))
    }

    /// Sends init its ends of the sockets.
    pub(crate) async fn hand_over(&self, far: SessionEnds) -> Result<(), Error> {
        let sent = self
            .init
            .send_descriptors(b"descriptors", &far.descriptors())
            .await;
        sent.map_err(Error::system("speaking with the container"))
    }

    /// Waits until the session stands and its interpreter is there.
    pub(crate) async fn wait_until_ready(&mut self) -> Result<ReadyHead, Error> {
        let Started {
            head,
            asks,
            listeners,
        } = self.init.wait_until_started().await?;
        self.opened_listeners = listeners;
        let change_notice = match asks {
            true => ChangeNotice::BeforeChange,
            false => ChangeNotice::Never,
        };
        match self.channel.receive().await {
            Ok(FromHead::Ready { not_copied, .. }) => Ok(ReadyHead {
                pid: head,
                change_notice,
                not_copied,
            }),
            Ok(_) => Err(cellblock_sandbox::Error::Protocol {
                process: "the head",
            }
            .into()),
            Err(error) => Err(ended_while("waiting for the session's interpreter")(error)),
        }
    }

    /// Refuses a fork that still holds something of its parent's. Code of the session runs in it by now, and may have something open for a
    /// moment only; so what is found counts when it is found again and again.
    pub(crate) async fn refuse_what_is_shared(&mut self) -> Result<(), Error> {
        const PAUSE: Duration = Duration::from_millis(10);
        const MAX_FINDINGS: usize = 8;
        /// How often the processes of the fork may be in calls that do not let them stop.
        const MAX_ATTEMPTS: usize = 200;
        let mut findings = 0;
        for _ in 0..MAX_ATTEMPTS {
            let channel = self.channel.far();
            let answer = self.init.request(CheckFork { channel }).await;
            match answer.map_err(ended_while("checking what the fork holds"))? {
                ForkFinding::Clean => return Ok(()),
                ForkFinding::NotNow => {}
                ForkFinding::Held { what, descriptor } => {
                    findings += 1;
                    if findings == MAX_FINDINGS {
                        return Err(ForkRefusal::StillHolds { what, descriptor }.into());
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(ForkRefusal::NotChecked.into())
    }

    /// The socket on which init asks before files are changed, for the task that answers.
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
            spawn_request: None,
        }
    }
}

impl SessionEnds {
    /// In the order in which the native code expects them.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.ends.iter().map(OwnedFd::as_fd).collect()
    }
}

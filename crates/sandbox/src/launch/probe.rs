//! The probe: which mechanisms this machine can enforce, found out by trying.

use crate::Error;
use crate::launch::launcher::{self, Inherited};
use crate::native_walls;
use crate::packet_pair;
use crate::receive_packet;
use cellblock_native::walls::probe::mechanisms;
use cellblock_native::wire::message::Message;
use cellblock_protocol::{Isolation, Rung};
use std::collections::BTreeMap;

/// A mechanism of the kernel that walls are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mechanism {
    /// User namespaces.
    Users,
    /// Mount namespaces with a root of our own.
    Mounts,
    /// Process namespaces with their own `/proc`.
    Processes,
    /// Network namespaces.
    Network,
    /// IPC namespaces.
    Ipc,
    /// Host name namespaces.
    Hostname,
    /// cgroup namespaces.
    CgroupNamespace,
    /// Landlock.
    Landlock,
    /// System call filters.
    Seccomp,
    /// System call filters that ask another process.
    SeccompNotify,
    /// Every step of the launcher in its order, with namespaces.
    StartWithNamespaces,
    /// Every step of the launcher in its order, without namespaces.
    StartWithoutNamespaces,
}

impl Mechanism {
    /// All of them, in the order of a report.
    pub const ALL: [Mechanism; 12] = [
        Mechanism::Users,
        Mechanism::Mounts,
        Mechanism::Processes,
        Mechanism::Network,
        Mechanism::Ipc,
        Mechanism::Hostname,
        Mechanism::CgroupNamespace,
        Mechanism::Landlock,
        Mechanism::Seccomp,
        Mechanism::SeccompNotify,
        Mechanism::StartWithNamespaces,
        Mechanism::StartWithoutNamespaces,
    ];
    /// The mechanisms that the rung `full` needs.
    pub const FULL: [Mechanism; 11] = [
        Mechanism::Users,
        Mechanism::Mounts,
        Mechanism::Processes,
        Mechanism::Network,
        Mechanism::Ipc,
        Mechanism::Hostname,
        Mechanism::CgroupNamespace,
        Mechanism::Landlock,
        Mechanism::Seccomp,
        Mechanism::SeccompNotify,
        Mechanism::StartWithNamespaces,
    ];
    /// The mechanisms that the rung `landlock` needs.
    pub const LANDLOCK: [Mechanism; 4] = [
        Mechanism::Landlock,
        Mechanism::Seccomp,
        Mechanism::SeccompNotify,
        Mechanism::StartWithoutNamespaces,
    ];

    /// The name of the mechanism, for a person.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Users => "user namespaces",
            Mechanism::Mounts => "mount namespaces",
            Mechanism::Processes => "process namespaces with their own /proc",
            Mechanism::Network => "network namespaces",
            Mechanism::Ipc => "IPC namespaces",
            Mechanism::Hostname => "host name namespaces",
            Mechanism::CgroupNamespace => "cgroup namespaces",
            Mechanism::Landlock => "Landlock",
            Mechanism::Seccomp => "seccomp filters",
            Mechanism::SeccompNotify => "seccomp user notification",
            Mechanism::StartWithNamespaces => "a start with namespaces",
            Mechanism::StartWithoutNamespaces => "a start without namespaces",
        }
    }

    /// How a person gets it where it is missing.
    pub fn remedy(self) -> &'static str {
        match self {
            Mechanism::Users => {
                "allow user namespaces: `sysctl user.max_user_namespaces` must not be 0; on Ubuntu \
                 `cellblock doctor --fix` allows them for this program; in Docker start the container with `--security-opt seccomp=unconfined`"
            }
            Mechanism::Processes => {
                "in a container, /proc is often masked: start it with `--security-opt systempaths=unconfined` (Docker) or `--security-opt unmask=ALL` (Podman)"
            }
            Mechanism::Landlock => {
                "use a kernel from 5.13 on with CONFIG_SECURITY_LANDLOCK, and `landlock` in the list of `lsm=`"
            }
            Mechanism::Seccomp | Mechanism::SeccompNotify => {
                "use a kernel from 5.5 on with CONFIG_SECCOMP_FILTER"
            }
            Mechanism::StartWithoutNamespaces => {
                "start the host as a user other than root, or leave root the capabilities SETUID and SETGID"
            }
            _ => {
                "use a kernel with this kind of namespace, and a container that does not forbid it"
            }
        }
    }

    /// The number of the mechanism in the native probe; `None` for one that the launcher itself tries.
    fn kind(self) -> Option<u64> {
        Some(match self {
            Mechanism::StartWithNamespaces | Mechanism::StartWithoutNamespaces => return None,
            Mechanism::Users => mechanisms::USERS,
            Mechanism::Mounts => mechanisms::MOUNTS,
            Mechanism::Processes => mechanisms::PROCESSES,
            Mechanism::Network => mechanisms::NETWORK,
            Mechanism::Ipc => mechanisms::IPC,
            Mechanism::Hostname => mechanisms::HOSTNAME,
            Mechanism::CgroupNamespace => mechanisms::CGROUP,
            Mechanism::Landlock => mechanisms::LANDLOCK,
            Mechanism::Seccomp => mechanisms::SECCOMP,
            Mechanism::SeccompNotify => mechanisms::NOTIFY,
        })
    }
}

/// The outcome of trying one mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The mechanism works; some have a version.
    Works {
        /// The version, or 0.
        version: u64,
    },
    /// The mechanism does not work, and this is the kernel's error.
    Fails(String),
}

/// The report on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    verdicts: BTreeMap<Mechanism, Verdict>,
}

impl Probe {
    /// Tries everything. A few milliseconds.
    pub fn run() -> Result<Probe, Error> {
        let (near, far) = packet_pair()?;
        rustix::io::ioctl_fionbio(&near, false)
            .map_err(|error| Error::system("probing the machine", error))?;
        let mut child = launcher::start_native(&["probe"], far, None, Inherited::Nothing)?;
        let mut verdicts = BTreeMap::new();
        loop {
            let packet = receive_packet(&near, Message::SIZE)
                .map_err(|error| Error::system("probing the machine", error))?;
            let Ok((message, _)) = Message::from_bytes(&packet.bytes) else {
                break;
            };
            if let Some(mechanism) = Mechanism::ALL
                .into_iter()
                .find(|mechanism| mechanism.kind() == Some(message.kind))
            {
                verdicts.insert(mechanism, Verdict::from_message(message));
            }
        }
        child
            .wait()
            .map_err(|error| Error::system("waiting for the probe", error))?;
        let starts = [
            (Mechanism::StartWithNamespaces, Rung::Full),
            (Mechanism::StartWithoutNamespaces, Rung::Landlock),
        ];
        for (mechanism, rung) in starts {
            let walls = native_walls(rung, &Isolation::default());
            verdicts.insert(mechanism, launcher::try_start(walls)?);
        }
        Ok(Probe { verdicts })
    }

    /// Whether a mechanism works here.
    pub fn has(&self, mechanism: Mechanism) -> bool {
        matches!(self.verdicts.get(&mechanism), Some(Verdict::Works { .. }))
    }

    /// The outcome of each mechanism.
    pub fn verdicts(&self) -> impl Iterator<Item = (Mechanism, &Verdict)> {
        self.verdicts
            .iter()
            .map(|(mechanism, verdict)| (*mechanism, verdict))
    }
}

impl Verdict {
    fn from_message(message: Message) -> Verdict {
        match message.a {
            0 => Verdict::Works { version: message.b },
            errno => Verdict::Fails(std::io::Error::from_raw_os_error(errno as i32).to_string()),
        }
    }
}

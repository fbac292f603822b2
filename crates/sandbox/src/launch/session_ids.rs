//! The user ids of sessions.

use cellblock_native::launch::launcher::IDS;
use cellblock_native::wire::config::walls;
use std::sync::OnceLock;

/// The lowest user id of sessions that root started, and for how many hosts there are ids.
const LOWEST_ID: u32 = 0x7000_0000;
const SLOTS: u32 = 0x4000;

/// The user ids that the sessions of this host have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionIds {
    /// Each session has an id of its own, from `first` on. Mounts of workspaces map the id to the owner of the directory.
    Each {
        /// The id of the zygote, which no session has.
        first: u32,
    },
    /// All sessions have one id, which is not the host's. It must be able to read what they read, and own what they write.
    Shared {
        /// The id.
        id: u32,
    },
    /// Sessions have the id of the host's own user.
    Host,
}

impl SessionIds {
    /// The ids of sessions behind these walls (bits of the native code).
    ///
    /// Only root has ids to give. To map them it needs the right to make namespaces, which root of a container does not have.
    pub fn of(walls: u64) -> SessionIds {
        let Rights {
            first,
            can_make_namespaces,
        } = *Rights::of_host();
        if first == 0 || walls == 0 {
            SessionIds::Host
        } else if walls & walls::NAMESPACES != 0 && can_make_namespaces {
            SessionIds::Each { first }
        } else {
            SessionIds::Shared { id: first }
        }
    }
}

/// Whether an id is one of those that a host of root's gives to its sessions.
pub fn is_session_id(id: u32) -> bool {
    (LOWEST_ID..LOWEST_ID + SLOTS * IDS).contains(&id)
}

/// The rights of the host's process. They stay as they are as long as it lives.
struct Rights {
    first: u32,
    can_make_namespaces: bool,
}

impl Rights {
    fn of_host() -> &'static Rights {
        static RIGHTS: OnceLock<Rights> = OnceLock::new();
        RIGHTS.get_or_init(|| Rights {
            first: first_id(),
            can_make_namespaces: has_capability(CAP_SYS_ADMIN),
        })
    }
}

/// The first user id that root may give to sessions, or 0 for an ordinary user.
///
/// It depends on the process, so that two hosts of one machine do not share ids.
fn first_id() -> u32 {
    let first = LOWEST_ID + (std::process::id() % SLOTS) * IDS;
    if rustix::process::geteuid().is_root() && is_mapped(first) {
        first
    } else {
        0
    }
}

/// Whether a user id exists here: root of a user namespace of its own often has no id but 0.
fn is_mapped(id: u32) -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.lines().any(|line| {
        let mut numbers = line
            .split_whitespace()
            .filter_map(|word| word.parse::<u64>().ok());
        let (Some(inside), Some(_), Some(count)) = (numbers.next(), numbers.next(), numbers.next())
        else {
            return false;
        };
        (inside..inside + count).contains(&u64::from(id))
    })
}

/// The number of the capability to make namespaces and mounts.
const CAP_SYS_ADMIN: u32 = 21;

/// Whether this process has a capability now.
fn has_capability(number: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    is_in_effective_set(&status, number)
}

fn is_in_effective_set(status: &str, number: u32) -> bool {
    status
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok())
        .is_some_and(|set| set & (1 << number) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_of_a_container_has_not_the_right_to_make_namespaces() {
        // As `docker run` gives it, and as root of the machine has it.
        let container = "Name:\tsh\nCapEff:\t00000000a80425fb\n";
        let machine = "Name:\tsh\nCapEff:\t000001ffffffffff\n";
        assert_eq!(
            [container, machine, ""].map(|status| is_in_effective_set(status, CAP_SYS_ADMIN)),
            [false, true, false]
        );
    }

    #[test]
    fn sessions_without_walls_have_the_user_of_the_host() {
        assert_eq!(SessionIds::of(0), SessionIds::Host);
    }
}

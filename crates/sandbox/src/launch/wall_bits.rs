//! From the walls of the protocol to the bits of the native code.

use crate::Error;
use crate::Mechanism;
use crate::Probe;
use cellblock_native::wire::config::walls as bits;
use cellblock_protocol::{Isolation, Rung, Wall};

/// The bits for a rung without the walls that were left out by name.
pub fn native_walls(rung: Rung, isolation: &Isolation) -> u64 {
    let kept = Wall::ALL
        .into_iter()
        .filter(|wall| !isolation.without.contains(wall));
    let walls = kept.map(bit).fold(0, |all, bit| all | bit);
    match rung {
        Rung::Full => walls | bits::NAMESPACES,
        // What needs a namespace is not there; Landlock and the filter stand in for files, network and IPC.
        Rung::Landlock => walls & !(bits::FILES | bits::PROCESSES | bits::HOSTNAME),
        Rung::None => 0,
    }
}

fn bit(wall: Wall) -> u64 {
    match wall {
        Wall::Files => bits::FILES,
        Wall::Processes => bits::PROCESSES,
        Wall::Network => bits::NETWORK,
        Wall::Ipc => bits::IPC,
        Wall::Hostname => bits::HOSTNAME,
        Wall::Landlock => bits::LANDLOCK,
        Wall::Seccomp => bits::SECCOMP,
        Wall::Privileges => bits::PRIVILEGES,
        Wall::Signals => bits::SIGNALS,
        Wall::Environment => bits::ENVIRONMENT,
        Wall::Memory => bits::MEMORY,
        Wall::ProcessCount => bits::PROCESS_COUNT,
        Wall::Disk => bits::DISK,
        // The host's own: it bounds what it keeps of the output.
        Wall::Output => 0,
    }
}

/// The rung for a wish: exactly the one that was named, else the best there is, else a refusal that says why.
pub fn reachable_rung(isolation: &Isolation, probe: &Probe) -> Result<Rung, Error> {
    let missing = |wanted: Rung| -> Option<String> {
        let needed: &[Mechanism] = match wanted {
            Rung::Full => &Mechanism::FULL,
            Rung::Landlock => &Mechanism::LANDLOCK,
            Rung::None => &[],
        };
        let lacking: Vec<String> = needed
            .iter()
            .filter(|mechanism| !probe.has(**mechanism))
            .map(|mechanism| mechanism.name().to_owned())
            .collect();
        (!lacking.is_empty()).then(|| format!("missing: {}", lacking.join(", ")))
    };
    match isolation.rung {
        Some(wanted) => match missing(wanted) {
            None => Ok(wanted),
            Some(reason) => Err(Error::Unreachable { wanted, reason }),
        },
        None if missing(Rung::Full).is_none() => Ok(Rung::Full),
        None => match missing(Rung::Landlock) {
            None => Ok(Rung::Landlock),
            Some(reason) => Err(Error::Unreachable {
                wanted: Rung::Landlock,
                reason,
            }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wall_that_native_code_builds_has_a_bit_of_its_own() {
        let native: Vec<u64> = Wall::ALL
            .into_iter()
            .filter(|wall| *wall != Wall::Output)
            .map(bit)
            .collect();
        assert_eq!(
            native.iter().fold(0, |all, bit| all | bit).count_ones() as usize,
            native.len()
        );
    }

    #[test]
    fn a_wall_that_is_left_out_by_name_is_the_only_one_that_is_not_there() {
        let whole = native_walls(Rung::Full, &Isolation::default());
        for wall in Wall::ALL {
            assert_eq!(
                native_walls(Rung::Full, &Isolation::default().without(wall)),
                whole & !bit(wall)
            );
        }
        assert_eq!(native_walls(Rung::None, &Isolation::default()), 0);
    }

    #[test]
    fn no_walls_at_all_are_never_chosen_by_themselves() {
        let nothing_works = Probe::default();
        assert!(matches!(
            reachable_rung(&Isolation::default(), &nothing_works),
            Err(Error::Unreachable { .. })
        ));
        assert!(matches!(
            reachable_rung(&Isolation::on(Rung::Full), &nothing_works),
            Err(Error::Unreachable { .. })
        ));
        assert!(matches!(
            reachable_rung(&Isolation::on(Rung::None), &nothing_works),
            Ok(Rung::None)
        ));
    }
}

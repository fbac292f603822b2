//! Which wall is made of what.

use cellblock::{Mechanism, Probe, Rung, Wall};

/// The rung that this machine reaches.
pub(crate) fn reached(probe: &Probe) -> Rung {
    let has_all =
        |mechanisms: &[Mechanism]| mechanisms.iter().all(|mechanism| probe.has(*mechanism));
    if has_all(&Mechanism::FULL) {
        Rung::Full
    } else if has_all(&Mechanism::LANDLOCK) {
        Rung::Landlock
    } else {
        Rung::None
    }
}

/// Whether a wall stands on a rung. On the middle one there are no namespaces; Landlock stands in for files, and the filter of
/// system calls for the network.
pub(crate) fn stands(wall: Wall, rung: Rung) -> bool {
    match rung {
        Rung::Full => true,
        Rung::Landlock => !matches!(
            wall,
            Wall::Files | Wall::Processes | Wall::Ipc | Wall::Hostname
        ),
        Rung::None => wall == Wall::Output,
    }
}

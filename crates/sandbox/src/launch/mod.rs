//! Starting the launcher and sessions: what the machine can enforce, what a session sees, and the request that makes it.

mod birth;
mod launcher;
mod library;
mod probe;
mod view;
mod walls;

pub use birth::Birth;
pub(crate) use birth::plain_path;
pub use launcher::{LaunchPlan, Launched, first_id, is_session_id};
pub use probe::{Mechanism, Probe, Verdict};
pub use view::{GUEST_DIRECTORY, View};
pub use walls::{native_walls, reachable_rung};

//! Starting the launcher and sessions: what the machine can enforce, what a session sees, and the request that makes it.

mod launcher;
mod probe;
mod session_ids;
mod spawn_request;
mod view;
mod wall_bits;

pub use launcher::{LaunchPlan, Launched};
pub use probe::{Mechanism, Probe, Verdict};
pub use session_ids::{SessionIds, is_session_id};
pub use spawn_request::SpawnRequest;
pub(crate) use spawn_request::{item, path_to_c_string};
pub use view::{GUEST_DIRECTORY, View};
pub use wall_bits::{native_walls, reachable_rung};

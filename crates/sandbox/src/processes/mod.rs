//! The processes of a session as the host sees them: what they hold, their cgroup, and programs of the host's own.

mod cgroup;
mod holdings;
mod leash;
mod outside;
mod signals;

pub use cgroup::{Cgroup, Cgroups, Loan};
pub use holdings::{Holdings, Size, Written, descriptors_waiting_in};
pub use leash::end_with_parent;
pub use outside::SessionProcesses;
pub use signals::ignore_file_size_signal;

//! The processes of a session as the host sees them: what they hold, their cgroup, and programs of the host's own.

mod cgroup;
mod delegated;
mod host_process;
mod pause;
mod proc_entry;
mod session_processes;
mod side_by_side;
mod terminal;
mod unlinked_files;

pub use cgroup::{Cgroup, CgroupLimits, Cgroups, MemoryAllowance};
pub use host_process::{end_with_parent, ignore_file_size_signal, run_before_sessions};
pub use pause::Paused;
pub use proc_entry::{Mappings, OpenFile, ProcEntry, ProcStat, ProcStatus, SharedMapping};
pub use session_processes::SessionProcesses;
pub use terminal::{TerminalSize, open_terminal, resize_terminal};
pub use unlinked_files::{Size, UnlinkedFiles, Written, descriptors_waiting_in};

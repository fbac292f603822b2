//! The files of a session: the workspace, what changed in it, its history for going back, and its disk limit.

pub(crate) mod borrowed;
mod contents;
pub(crate) mod disk;
pub(crate) mod disk_guard;
pub(crate) mod entry_state;
pub(crate) mod fork_copy;
pub(crate) mod found_processes;
pub(crate) mod hard_links;
pub(crate) mod held_files;
pub(crate) mod history;
pub(crate) mod kept_workspaces;
pub(crate) mod original_files;
pub(crate) mod own;
pub(crate) mod preserve;
pub(crate) mod restore;
mod restore_directories;
mod set_id;
pub(crate) mod shared_files;
pub(crate) mod shared_history;
pub(crate) mod store;
pub(crate) mod tracker;
pub(crate) mod unlinked;
pub(crate) mod untrusted;
pub(crate) mod watch;
pub(crate) mod watch_runtime;
pub(crate) mod watched_files;
pub(crate) mod workspace;

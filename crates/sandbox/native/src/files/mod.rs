//! Files that code of a session is about to change: init asks the host to keep a copy first, or makes the change itself.

pub mod change_handler;
pub mod deferred_calls;
pub mod file_argument;
pub mod handover;
pub mod lookup;
pub mod own_directories;
pub mod own_file;
pub mod perform;
pub mod waiting_calls;

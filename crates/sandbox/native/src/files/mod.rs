//! Files that code of a session is about to change: init asks the host to keep a copy first, or makes the change itself.

pub mod acting;
pub mod handover;
pub mod keep;
pub mod lookup;
pub mod named;
pub mod own_file;
pub mod pending;
pub mod places;
pub mod waiting;

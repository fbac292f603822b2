//! What the host and the native code tell each other. Both sides are compiled from these files, so there is one layout.

pub mod config;
pub mod message;

//! The frames between the host and the head of a session. `docs/protocol.md` has the tables.
//!
//! What goes down is ours. What comes up is written by a process that runs the user's code, so it is
//! checked for size and shape here, once, and is a typed value from then on.

mod bounds;
pub mod codec;
mod from_head;
mod reply;
mod to_head;

pub use from_head::{Done, FromHead, HeadError};
pub use reply::{Armed, Reply, Settled};
pub use to_head::{NamedLosses, RepeatableCell, ToHead, ToolContent};

//! What happens while a reply comes.

use crate::Reply;
use serde::{Deserialize, Serialize};

/// A piece of a reply, as it comes. The last one of a stream without errors is `Finished`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// More text.
    Text {
        /// The text.
        text: String,
    },
    /// More of what it thinks before it answers.
    Reasoning {
        /// The text.
        text: String,
    },
    /// A call begins. Its arguments follow.
    CallBegun {
        /// Which one of this reply, from 0.
        index: usize,
        /// The tool. The id is final only in the finished reply.
        name: String,
    },
    /// More of the arguments of a call.
    CallArguments {
        /// Which call.
        index: usize,
        /// The text.
        text: String,
    },
    /// It failed and will be asked again. Whatever came before this is void.
    Retrying {
        /// Which try comes next; the first one was 1.
        attempt: u32,
        /// How long until then.
        wait_ms: u64,
        /// Why.
        reason: String,
    },
    /// The reply is complete.
    Finished {
        /// All of it.
        reply: Reply,
    },
}

//! What happens while a call runs, for whoever watches.

use crate::RecordedCall;
use cellblock_protocol::Event;
use std::sync::Arc;
use std::time::Duration;

/// Something to show while a call runs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Happening {
    /// The running cell wrote or showed something, or called a tool.
    Cell(Event),
    /// A tool that the running cell called has answered.
    Answered {
        /// The id of the call.
        call: String,
        /// The tool.
        name: String,
        /// Whether it has a result.
        ok: bool,
        /// How long it took.
        took: Duration,
    },
    /// A call waits for a person.
    Waiting {
        /// The tool.
        tool: String,
    },
    /// A call was answered by something outside of the session, and the answer is recorded.
    Recorded(Box<RecordedCall>),
    /// The plan changed.
    Plan {
        /// The number of its version.
        version: usize,
        /// The tree as Markdown.
        markdown: String,
    },
}

/// Who watches. It is called on the way and must be quick.
pub type Watcher = Arc<dyn Fn(Happening) + Send + Sync>;

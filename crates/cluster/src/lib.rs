//! Sessions on more than one machine.
//!
//! Cellblock runs on an existing engine: it stores records, directory entries and blobs, and carries requests. The engine is behind
//! the traits of [`engine`]. [`embedded`] is the engine of one machine and needs no server; `nats`, behind the cargo feature of that
//! name, is the engine of several.
//!
//! Three ideas carry everything here:
//!
//! 1. **The journal is the session.** A cell has happened when its record is in the session's journal, and only then its caller is
//!    answered. The interpreter's memory is a cache of the journal.
//! 2. **The journal is the fence.** Each append names the last record. A new owner appends first, so every later append of the old owner
//!    is refused. Leases decide *when* a session moves, never *whether that is safe*.
//! 3. **Keys make lost messages harmless.** Requests may be lost or doubled. Each has an idempotency key, senders repeat it until they are
//!    answered, and a key that is in the journal is answered from there.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Owner`] | the protocol: claim, fence, read, rebuild, commit |
//! | [`Node`] | a lease, many owners, one task for each session |
//! | [`RunQueue`] | runs that wait for a node, in fair shares, and the node that each has |
//! | [`Gateway`] | finds the node of a session, repeats requests, has sessions adopted |
//! | [`placement`] | the choice of a node |
//! | [`retention`] | what is deleted, and when |
//! | [`history`] | checks that what callers saw is what a session allows |
#![forbid(unsafe_code)]

pub mod embedded;
pub mod engine;
mod gateway;
pub mod history;
mod interpreter;
mod lock;
mod message;
mod names;
#[cfg(feature = "nats")]
pub mod nats;
mod node;
mod operator;
mod owner;
pub mod placement;
mod queue;
mod record;
pub mod retention;
mod runtime;
mod writer;

pub use gateway::{CallError, CellReply, Gateway, NodeHealth};
pub use interpreter::{Interpreter, Interpreters, OwnRecord};
pub use message::{Rebuilt, Refusal, Reply, Request};
pub use names::{InvalidName, MAX_KEY_BYTES, MAX_NAME_BYTES, NodeId, RequestKey, SessionId};
pub use node::{MAX_WAITING, Measure, Node, NodeOptions, REPLY_WITHIN};
pub use operator::{OperatorError, set_node_state};
pub use owner::{AdoptError, Owner, OwnerServices, RunError};
pub use queue::{OpenRun, RunId, RunQueue, RunTicket, Submitted, TakenRun, Wait};
pub use record::{Chain, Damage, RECORD_VERSION, Record, RecordBody};
pub use runtime::{BoxFuture, Runtime, TokioRuntime, timeout};
pub use writer::JournalWriter;

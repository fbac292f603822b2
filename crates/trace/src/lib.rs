//! Traces: spans and events in files that rotate, without secrets, and what they tell about a run.
//!
//! [`start`] begins to write; what is written, [`Trace::read`] reads, and [`Report`] explains. Nothing here can fail a run: what
//! cannot be written is dropped and counted.
#![forbid(unsafe_code)]

mod caps;
mod fields;
mod folded;
mod layer;
mod otlp;
mod read;
mod record;
mod report;
mod rotating;
mod secrets;
mod start;
mod statistics;
mod targets;
mod text;
mod writer;

pub use caps::Caps;
pub use layer::TraceLayer;
pub use read::Trace;
pub use record::Record;
pub use report::{NamedSpans, Repeated, Report, Shares, Slow};
pub use rotating::Rotation;
pub use secrets::Secrets;
pub use start::{start, trace_file};
pub use targets::usual_targets;
pub use writer::TraceFile;

//! Traces: spans and events in a file that rotates, without secrets, and reports about them.
//!
//! [`start`] makes a program write its trace. [`Trace::read`] reads what is known of one run, and [`TraceReport`] sums it up. Tracing
//! never fails a run: a line that cannot be written is dropped and counted.
//!
//! ```
//! use cellblock_trace::{SecretFilter, Trace, TraceOptions, TraceWriter};
//! use tracing_subscriber::layer::SubscriberExt as _;
//!
//! # fn main() -> std::io::Result<()> {
//! # let place = tempfile::tempdir()?;
//! # let path = place.path().join("trace.jsonl");
//! let options = TraceOptions { secrets: SecretFilter::with_values(["my-password".to_owned()]), ..TraceOptions::default() };
//! let writer = TraceWriter::start(&path, options)?;
//! let subscriber = tracing_subscriber::registry().with(writer.layer());
//! tracing::subscriber::with_default(subscriber, || {
//!     tracing::info_span!("run", run = "r1", text = "my-password").in_scope(|| {});
//! });
//! writer.flush();
//!
//! let trace = Trace::read(&path, "r1")?;
//! assert_eq!(trace.records()[0].text_field("text"), Some("<hidden>"));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod export;
mod layer;
mod report;
mod secrets;
mod trace;
mod writer;

pub use cellblock_records::Rotation;
pub use layer::{TraceLayer, ValueLimits};
pub use report::{RepeatedCall, SlowSpan, SpanStatistics, TimeShares, TraceReport};
pub use secrets::SecretFilter;
pub use trace::{Record, Trace};
pub use writer::{TraceOptions, TraceWriter, default_targets, start, trace_path};

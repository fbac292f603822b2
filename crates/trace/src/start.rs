//! Tracing for a whole program, with the usual settings.

use crate::{Caps, Rotation, Secrets, TraceFile, usual_targets};
use std::path::{Path, PathBuf};
use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt as _;

/// The trace in a state directory.
pub fn trace_file(state: &Path) -> PathBuf {
    state.join("trace.jsonl")
}

/// Begins to write the trace in this state directory, for the whole program and until what it gives is dropped.
///
/// None where that is not possible (a directory that cannot be written, or someone else who already listens): a program goes on
/// without a trace.
pub fn start(state: &Path) -> Option<TraceFile> {
    // Variables that are not text are no keys that a text could hold.
    let variables = std::env::vars_os();
    let variables = variables.filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        Some((name, value.into_string().ok()?))
    });
    let secrets = Secrets::from_environment(variables);
    let path = trace_file(state);
    let (file, layer) =
        TraceFile::start(&path, Rotation::default(), Caps::default(), secrets).ok()?;
    let subscriber = tracing_subscriber::registry().with(layer.with_filter(usual_targets()));
    tracing::subscriber::set_global_default(subscriber).ok()?;
    Some(file)
}

//! Whose spans and events are worth keeping.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

/// Our own from `INFO` on, and warnings of everybody else: libraries tell every connection that they make.
pub fn usual_targets() -> Targets {
    Targets::new()
        .with_default(LevelFilter::WARN)
        .with_target("cellblock", LevelFilter::INFO)
}

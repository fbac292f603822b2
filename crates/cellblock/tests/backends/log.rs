//! Everything that the library logs, for the tests of it.

use std::fmt;
use std::sync::{Mutex, Once};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Listens from now on.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let subscriber = tracing_subscriber::registry().with(Kept);
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
}

/// What containers printed so far.
pub(crate) fn logged() -> Vec<String> {
    LINES.lock().unwrap().clone()
}

struct Kept;

impl<S: Subscriber> Layer<S> for Kept {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "cellblock::docker" {
            event.record(&mut Message);
        }
    }
}

struct Message;

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            LINES.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

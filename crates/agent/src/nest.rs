//! Runs inside of a run: who watches them, and what they cost.

use crate::run::{Observer, RunEvent};
use cellblock_model::Usage;
use std::sync::{Arc, Mutex, PoisonError};

/// Shared between a run and the templates that it calls.
#[derive(Clone, Default)]
pub(crate) struct Nest(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    observer: Option<Observer>,
    usage: Usage,
}

impl Nest {
    /// Whoever watches the run watches what it calls.
    pub(crate) fn watch(&self, observer: &Observer) {
        self.lock().observer = Some(Arc::clone(observer));
    }

    /// Who watches a run that is called by this name.
    pub(crate) fn observer(&self, name: &str) -> Observer {
        let outer = self.lock().observer.clone();
        let name = name.to_owned();
        Arc::new(move |event| {
            if let Some(outer) = &outer {
                outer(&RunEvent::Nested {
                    name: name.clone(),
                    inner: Box::new(event.clone()),
                });
            }
        })
    }

    /// Adds what a run inside has cost.
    pub(crate) fn spend(&self, usage: Usage) {
        self.lock().usage += usage;
    }

    /// What the runs inside have cost since the last time.
    pub(crate) fn take_usage(&self) -> Usage {
        std::mem::take(&mut self.lock().usage)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Stopping work that runs on another thread.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// A switch that ends [`crate::Environments::make`]: the installer is killed within 50 ms, the half-made
/// environment is removed, and the call returns [`crate::Error::Cancelled`]. Clones share the switch.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A switch that is not thrown.
    pub fn new() -> Self {
        Self::default()
    }

    /// Throws it, for good.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was thrown.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// A guard that throws it when dropped: an async caller holds it beside the blocking task, and a
    /// dropped future stops the work.
    #[must_use]
    pub fn on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }
}

/// Made by [`Cancel::on_drop`].
#[derive(Debug)]
pub struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

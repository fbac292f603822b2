//! The host that a `SessionBuilder` uses when none is given: one for each async runtime.
//!
//! Sockets belong to the async runtime they were registered with, so a host cannot outlive it. A task on that runtime holds the
//! entry; when the runtime goes, it drops the task, and the task the host.

use crate::{Error, Host};
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use tokio::runtime::{Handle, Id};

static HOSTS: LazyLock<Mutex<HashMap<Id, Host>>> = LazyLock::new(Mutex::default);

/// The host of the runtime that this is called in.
pub(crate) fn shared_host() -> Result<Host, Error> {
    let runtime = Handle::current();
    let mut hosts = HOSTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(host) = hosts.get(&runtime.id()) {
        return Ok(host.clone());
    }
    let host = Host::builder().build()?;
    hosts.insert(runtime.id(), host.clone());
    let entry = RuntimeEntry(runtime.id());
    runtime.spawn(async move {
        let _entry = entry;
        std::future::pending::<()>().await;
    });
    Ok(host)
}

struct RuntimeEntry(Id);

impl Drop for RuntimeEntry {
    fn drop(&mut self) {
        let host = HOSTS
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.0);
        drop(host);
    }
}

//! What environments cost that were made before.

use super::measure::{GAP, milliseconds};
use anyhow::ensure;
use cellblock::env::{Environment, Requirements};
use cellblock::{Host, Isolation, SessionOptions};
use std::time::{Duration, Instant};

/// From the request to an environment that is ready, without a resolver.
pub(super) async fn found_again(host: &Host, repetitions: usize) -> anyhow::Result<Vec<f64>> {
    let wanted = wanted(host);
    let first = host.environment_with(wanted.clone()).await?;
    let mut values = Vec::new();
    for _ in 0..repetitions {
        let begun = Instant::now();
        let again = host.environment_with(wanted.clone()).await?;
        values.push(milliseconds(begun.elapsed()));
        ensure!(again.prefix == first.prefix, "it was made twice");
    }
    Ok(values)
}

/// A session with its first cell, from the pool of an environment that is not the host's own.
pub(super) async fn pooled_session(host: &Host, repetitions: usize) -> anyhow::Result<Vec<f64>> {
    let environment: Environment = host.environment_with(nothing()).await?;
    let isolation = Isolation::default();
    let runtime = host.runtime_in(&environment, &isolation).await?;
    let mut values = Vec::new();
    for _ in 0..repetitions {
        while runtime.pool().ready < runtime.pool().size {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(GAP).await;
        let begun = Instant::now();
        let opened = host.open_in(&environment, SessionOptions::default());
        let session = opened.await?;
        session.run("1+1").await?;
        values.push(milliseconds(begun.elapsed()));
        session.close().await;
    }
    Ok(values)
}

/// The default set where it is there; else an environment with nothing in it, which needs no index.
fn wanted(host: &Host) -> Requirements {
    if host.has_packages() {
        Requirements::default_set()
    } else {
        nothing()
    }
}

fn nothing() -> Requirements {
    Requirements::new::<String>([])
}

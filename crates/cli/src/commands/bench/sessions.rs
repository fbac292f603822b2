//! Sessions and cells that go well.

use super::processes::descendant_memory;
use super::{Bench, GAP, milliseconds};
use anyhow::{Context as _, ensure};
use cellblock::env::{Environment, Requirements};
use cellblock::{
    Cell, Event, Host, Isolation, Session, SessionOptions, Spawn, StateOutcome, Status, Strategy,
};
use std::time::{Duration, Instant};

impl Bench {
    pub(super) async fn pooled_session(&self) -> anyhow::Result<Vec<f64>> {
        let runtime = self.host.runtime(&Isolation::default()).await?;
        let mut values = Vec::new();
        for _ in 0..self.repetitions {
            while runtime.pool().ready < runtime.pool().size {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            tokio::time::sleep(GAP).await;
            let begun = Instant::now();
            let session = self.host.session().start().await?;
            session.run("1+1").await?;
            values.push(milliseconds(begun.elapsed()));
            session.close().await;
        }
        Ok(values)
    }

    /// Sessions one after the other, each closed before the next is asked for.
    pub(super) async fn sessions_on_demand(&self, gap: Duration) -> anyhow::Result<Vec<f64>> {
        let mut values = Vec::new();
        for _ in 0..self.repetitions {
            if !gap.is_zero() {
                tokio::time::sleep(gap).await;
            }
            let begun = Instant::now();
            let session = self.made_on_demand(1 << 30).await?;
            session.run("1+1").await?;
            values.push(milliseconds(begun.elapsed()));
            session.close().await;
        }
        Ok(values)
    }

    pub(super) async fn cells(
        &self,
        strategy: Strategy,
        code: &str,
        gap: Duration,
    ) -> anyhow::Result<Vec<f64>> {
        let session = self.session(strategy).await?;
        let mut values = Vec::new();
        for _ in 0..self.repetitions * 2 {
            if !gap.is_zero() {
                tokio::time::sleep(gap).await;
            }
            let begun = Instant::now();
            session.run(code).await?;
            values.push(milliseconds(begun.elapsed()));
        }
        session.close().await;
        Ok(values)
    }

    pub(super) async fn beside_large_data(&self) -> anyhow::Result<Vec<f64>> {
        let build = if self.host.has_packages() {
            "import numpy, pandas; big = pandas.DataFrame(numpy.ones((1 << 20, 128)))"
        } else {
            "big = bytearray(b'x') * (1 << 30)"
        };
        let plain = self.session(Strategy::Process).await?;
        let heavy = self.made_on_demand(3 << 30).await?;
        let built = heavy
            .run(Cell::new(build).timeout(Duration::from_secs(60)))
            .await?;
        ensure!(
            built.status == Status::Success,
            "the data could not be made: {:?}",
            built.error
        );
        let mut values = Vec::new();
        for _ in 0..self.repetitions / 5 {
            let mut both = [0.0; 2];
            for (session, slot) in [(&plain, 0), (&heavy, 1)] {
                tokio::time::sleep(Duration::from_millis(150)).await;
                let begun = Instant::now();
                session.run("x = 1").await?;
                both[slot] = milliseconds(begun.elapsed());
            }
            values.push(both[1] - both[0]);
        }
        Ok(values)
    }
}

impl Bench {
    pub(super) async fn recoveries(
        &self,
        deadly: Cell,
        expected: Duration,
    ) -> anyhow::Result<Vec<f64>> {
        let session = self.session(Strategy::Process).await?;
        session.run("x = 7").await?;
        let mut values = Vec::new();
        for _ in 0..self.repetitions / 2 {
            tokio::time::sleep(GAP).await;
            let begun = Instant::now();
            let dead = session.run(deadly.clone()).await?;
            let alive = session.run("x").await?;
            values.push(milliseconds(begun.elapsed().saturating_sub(expected)));
            ensure!(
                dead.state.outcome == StateOutcome::Restored,
                "the session was not restored: {dead:?}"
            );
            ensure!(
                alive.value.is_some_and(|value| value.repr == "7"),
                "the variable is gone"
            );
        }
        session.close().await;
        Ok(values)
    }

    /// From the kill, not from the first byte: filling the memory is the code's own time.
    pub(super) async fn memory_kills(&self) -> anyhow::Result<Vec<f64>> {
        let session = self.made_on_demand(256 << 20).await?;
        session.run("x = 7").await?;
        let greedy = "import mmap, time\nhoard = []\nwhile True:\n    part = mmap.mmap(-1, 1 << 22)\n    part.write(b'x' * (1 << 22))\n    hoard.append(part)\n    print(end='.', flush=True)";
        let mut values = Vec::new();
        for _ in 0..(self.repetitions / 10).max(3) {
            let mut running = session.start(greedy)?;
            let mut last_sign = Instant::now();
            let dead = loop {
                match running.next().await.context("the cell gave no result")? {
                    Event::Stdout { .. } => last_sign = Instant::now(),
                    Event::Result { result } => break result,
                    _ => {}
                }
            };
            session.run("x").await?;
            values.push(milliseconds(last_sign.elapsed()));
            ensure!(
                dead.status == Status::Crashed && dead.state.outcome == StateOutcome::Restored,
                "not restored: {dead:?}"
            );
        }
        session.close().await;
        Ok(values)
    }

    pub(super) async fn undos(&self) -> anyhow::Result<Vec<f64>> {
        let session = self.session(Strategy::Process).await?;
        let mut values = Vec::new();
        for _ in 0..self.repetitions / 2 {
            session.run("x = x + 1").await?;
            tokio::time::sleep(GAP).await;
            let begun = Instant::now();
            session.undo(1).await?;
            values.push(milliseconds(begun.elapsed()));
        }
        session.close().await;
        Ok(values)
    }

    /// From the request for a process that does nothing to the news of its end.
    pub(super) async fn spawns(&self) -> anyhow::Result<Vec<f64>> {
        let session = self.session(Strategy::Process).await?;
        let mut values = Vec::new();
        for _ in 0..self.repetitions {
            let begun = Instant::now();
            let process = session.spawn(Spawn::new(["true"])).await?;
            let end = process.wait().await;
            values.push(milliseconds(begun.elapsed()));
            ensure!(end.exit_code == Some(0), "the process ended with {end:?}");
        }
        session.close().await;
        Ok(values)
    }

    pub(super) async fn forks(&self) -> anyhow::Result<Vec<f64>> {
        let session = self.session(Strategy::Process).await?;
        session
            .run("open('notes.txt', 'w').write('kept'); notes = open('notes.txt')")
            .await?;
        let mut values = Vec::new();
        for n in 0..self.repetitions {
            session.run(format!("x = {n}").as_str()).await?;
            tokio::time::sleep(GAP).await;
            let begun = Instant::now();
            let fork = session.fork().await?;
            values.push(milliseconds(begun.elapsed()));
            let first = fork.run("x, notes.name").await?;
            let repr = first.value.map(|value| value.repr).unwrap_or_default();
            ensure!(repr == format!("({n}, 'notes.txt')"), "the fork has {repr}");
            fork.close().await;
            // Files of a session stay after it; these are of no use to anyone.
            let _ = std::fs::remove_dir_all(fork.workspace());
        }
        session.close().await;
        let _ = std::fs::remove_dir_all(session.workspace());
        Ok(values)
    }
}

impl Bench {
    pub(super) async fn idle_sessions(&self) -> anyhow::Result<Vec<f64>> {
        const IDLE_SESSIONS: usize = 10;
        let mut held = vec![self.made_on_demand(1 << 30).await?];
        let mut values = Vec::new();
        for _ in 0..3 {
            settle(&held).await?;
            let before = descendant_memory();
            for _ in 0..IDLE_SESSIONS {
                held.push(self.made_on_demand(1 << 30).await?);
            }
            settle(&held).await?;
            let (Some(before), Some(after)) = (before, descendant_memory()) else {
                anyhow::bail!(
                    "this user may not look at the memory of init and the standbys; run it as root"
                );
            };
            values.push(after.saturating_sub(before) as f64 / IDLE_SESSIONS as f64 / 1e6);
        }
        for session in held {
            session.close().await;
        }
        Ok(values)
    }

    pub(super) async fn floods(&self) -> anyhow::Result<Vec<f64>> {
        let session = self.session(Strategy::Direct).await?;
        let mut values = Vec::new();
        for _ in 0..5 {
            let begun = Instant::now();
            let result = session
                .run("line = 'x' * 9_999\nfor _ in range(10_000): print(line)")
                .await?;
            let seconds = begun.elapsed().as_secs_f64();
            values.push(result.usage.stdout_bytes as f64 / 1e6 / seconds);
        }
        session.close().await;
        Ok(values)
    }

    pub(super) fn commands(&self) -> anyhow::Result<Vec<f64>> {
        let own = std::env::current_exe().context("where is this program?")?;
        let mut values = Vec::new();
        for _ in 0..(self.repetitions / 5).max(5) {
            let begun = Instant::now();
            let output = std::process::Command::new(&own)
                .args(["exec", "-c", "1+1"])
                .output()?;
            values.push(milliseconds(begun.elapsed()));
            ensure!(
                output.stdout == b"2\n",
                "it printed {:?}",
                String::from_utf8_lossy(&output.stdout)
            );
        }
        Ok(values)
    }
}

/// Every session armed and quiet.
async fn settle(sessions: &[Session]) -> anyhow::Result<()> {
    for session in sessions {
        session.checkpoints().await?;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    Ok(())
}

/// From the request to an environment that is ready, without a resolver.
pub(super) async fn cached_environment(
    host: &Host,
    repetitions: usize,
) -> anyhow::Result<Vec<f64>> {
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
pub(super) async fn session_in_environment(
    host: &Host,
    repetitions: usize,
) -> anyhow::Result<Vec<f64>> {
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

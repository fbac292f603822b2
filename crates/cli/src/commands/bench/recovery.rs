//! Crashes, and ways back.

use super::measure::{Bench, GAP, milliseconds};
use anyhow::{Context as _, ensure};
use cellblock::{Cell, Event, StateOutcome, Status, Strategy};
use std::time::{Duration, Instant};

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

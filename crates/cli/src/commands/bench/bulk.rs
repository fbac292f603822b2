//! Memory, output, and the command as a whole.

use super::measure::{Bench, milliseconds};
use super::memory;
use anyhow::{Context as _, ensure};
use cellblock::{Session, Strategy};
use std::time::{Duration, Instant};

impl Bench {
    pub(super) async fn idle_sessions(&self) -> anyhow::Result<Vec<f64>> {
        const MANY: usize = 10;
        let mut held = vec![self.made_on_demand(1 << 30).await?];
        let mut values = Vec::new();
        for _ in 0..3 {
            settle(&held).await?;
            let before = memory::of_descendants();
            for _ in 0..MANY {
                held.push(self.made_on_demand(1 << 30).await?);
            }
            settle(&held).await?;
            let (Some(before), Some(after)) = (before, memory::of_descendants()) else {
                anyhow::bail!(
                    "this user may not look at the memory of init and the standbys; run it as root"
                );
            };
            values.push(after.saturating_sub(before) as f64 / MANY as f64 / 1e6);
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

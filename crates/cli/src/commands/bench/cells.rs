//! Sessions and cells that go well.

use super::measure::{Bench, GAP, milliseconds};
use anyhow::ensure;
use cellblock::{Cell, Isolation, SessionBuilder, Status, Strategy};
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
            let session = SessionBuilder::new().host(&self.host).start().await?;
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
        let built = heavy.run(Cell::new(build).timeout(60.0)).await?;
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

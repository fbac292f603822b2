//! A real session, and a pool of them: whether they work here, and how fast.

use crate::args::PythonArgs;
use cellblock::{Host, Isolation, PoolState, Preload};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const POOL: usize = 2;
/// Making a session takes milliseconds; a pool that is not full by then will not be.
const POOL_TIMEOUT: Duration = Duration::from_secs(5);

/// What was tried, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    /// From nothing to the answer of the first session.
    pub(crate) first_ms: f64,
    pub(crate) pool: Pool,
}

/// A pool as it was after it had time to fill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    pub(crate) state: PoolState,
    /// From asking for a session to the answer of its first cell.
    pub(crate) answer_ms: f64,
}

impl Trial {
    pub(crate) async fn run(args: &PythonArgs) -> anyhow::Result<Trial> {
        let begun = Instant::now();
        let host = args.host_builder(Preload::None).pool(POOL).build()?;
        answer(&host).await?;
        let first_ms = milliseconds(begun);
        let runtime = host.runtime(&Isolation::default()).await?;
        let filling = Instant::now();
        while runtime.pool().ready < POOL && filling.elapsed() < POOL_TIMEOUT {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let state = runtime.pool();
        let begun = Instant::now();
        answer(&host).await?;
        let pool = Pool {
            state,
            answer_ms: milliseconds(begun),
        };
        Ok(Trial { first_ms, pool })
    }

    pub(crate) fn to_json(self) -> Value {
        let Pool { state, answer_ms } = self.pool;
        json!({
            "ok": true,
            "ms": self.first_ms,
            "pool": { "size": state.size, "ready": state.ready, "ms": answer_ms },
        })
    }
}

async fn answer(host: &Host) -> anyhow::Result<()> {
    let session = host.session().start().await?;
    let result = session.run("1+1").await?;
    session.close().await;
    let is_two = result.value.is_some_and(|value| value.repr == "2");
    anyhow::ensure!(is_two, "1+1 ended with {}", result.status);
    Ok(())
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

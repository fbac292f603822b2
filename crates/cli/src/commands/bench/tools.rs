//! Tool calls, through the registry and its checks, as in real runs.

use anyhow::{Context as _, anyhow, ensure};
use cellblock::tools::{Context, Registry, Tool, ToolError, ToolRunner};
use cellblock::{Cell, Session, Status};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::time::{Duration, Instant};

/// Gives back what it is given.
#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// What.
    text: String,
    /// How often.
    #[serde(default)]
    times: u32,
    /// Milliseconds to wait before.
    #[serde(default)]
    wait: u64,
}

struct EchoTool;

impl Tool for EchoTool {
    type Parameters = Echo;
    type Output = String;

    async fn call(&self, echo: Echo, _: &Context) -> Result<String, ToolError> {
        if echo.wait > 0 {
            tokio::time::sleep(Duration::from_millis(echo.wait)).await;
        }
        Ok(echo.text.repeat(echo.times.max(1) as usize))
    }
}

fn registry() -> anyhow::Result<Registry> {
    Ok(Registry::builder().tool(EchoTool).build()?)
}

/// The milliseconds that a cell prints as a list.
async fn printed(session: Session, code: &str) -> anyhow::Result<Vec<f64>> {
    let bench = ToolRunner::builder(registry()?)
        .session(session.clone())
        .build();
    let ran = bench.run_cell(Cell::new(code).timeout(120.0), None).await;
    let ran = ran.map_err(|error| anyhow!("the cell did not run: {error}"))?;
    ensure!(
        ran.result.status == Status::Success,
        "the cell failed: {:?}",
        ran.result.error
    );
    session.close().await;
    serde_json::from_str(&ran.result.stdout).context("the cell printed no list")
}

pub(super) async fn single_calls(session: Session) -> anyhow::Result<Vec<f64>> {
    let code = "import time\ntimes = []\nfor _ in range(500):\n    begun = time.perf_counter()\n    echo('x')\n    times.append((time.perf_counter() - begun) * 1e3)\nprint(times)";
    printed(session, code).await
}

pub(super) async fn thousand_calls(
    session: Session,
    repetitions: usize,
) -> anyhow::Result<Vec<f64>> {
    let code = format!(
        "import time\ntimes = []\nfor _ in range({}):\n    begun = time.perf_counter()\n    for _ in range(1000): echo('x')\n    times.append((time.perf_counter() - begun) * 1e3)\nprint(times)",
        // Within the calls that one cell may make.
        repetitions.clamp(1, 10)
    );
    printed(session, &code).await
}

pub(super) async fn overlapping_calls(
    session: Session,
    repetitions: usize,
) -> anyhow::Result<Vec<f64>> {
    let code = format!(
        "import asyncio, time\ntimes = []\nfor _ in range({repetitions}):\n    begun = time.perf_counter()\n    await asyncio.gather(*[tools.echo.aio('x', wait=20) for _ in range(100)])\n    times.append((time.perf_counter() - begun) * 1e3)\nprint(times)"
    );
    printed(session, &code).await
}

/// Averages over batches: one check is shorter than the clock is exact.
pub(super) fn checks(repetitions: usize) -> anyhow::Result<Vec<f64>> {
    const BATCH: u32 = 1000;
    let registry = registry()?;
    let arguments =
        json!({"text": "a text of ordinary length, as models send it", "times": "3", "wait": 0});
    let mut values = Vec::new();
    for _ in 0..repetitions {
        let begun = Instant::now();
        for _ in 0..BATCH {
            registry.check("echo", arguments.clone())?;
        }
        values.push(begun.elapsed().as_secs_f64() * 1e3 / f64::from(BATCH));
    }
    Ok(values)
}

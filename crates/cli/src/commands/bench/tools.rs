//! Tool calls, through the registry and its checks, as in real runs.

use super::{ADDED_CODE, added_by};
use anyhow::{Context as _, anyhow, ensure};
use cellblock::tools::{Context, Registry, Tool, ToolError, ToolRunner};
use cellblock::{Cell, Session, Status};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

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
    let ran = bench
        .run_cell(Cell::new(code).timeout(Duration::from_secs(120)), None)
        .await;
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

/// A client of this very program.
struct Client {
    _server: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

impl Client {
    async fn start() -> anyhow::Result<Client> {
        let own = std::env::current_exe().context("where is this program?")?;
        let mut server = Command::new(own)
            .arg("mcp")
            .env("CELLBLOCK_CONFIG", "/dev/null")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let (to, from) = (server.stdin.take(), server.stdout.take());
        let mut client = Client {
            _server: server,
            to: to.context("no input")?,
            from: BufReader::new(from.context("no output")?).lines(),
        };
        let greeting = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}});
        client.ask("initialize", greeting).await?;
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        client.send(&ready).await?;
        Ok(client)
    }

    async fn send(&mut self, message: &Value) -> anyhow::Result<()> {
        Ok(self.to.write_all(format!("{message}\n").as_bytes()).await?)
    }

    async fn ask(&mut self, method: &str, params: Value) -> anyhow::Result<String> {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.send(&request).await?;
        let line = self.from.next_line().await?;
        line.context("the server ended")
    }

    async fn run(&mut self) -> anyhow::Result<()> {
        let call = json!({"name": "execute_python_code", "arguments": {"python_code_snippet": ADDED_CODE}});
        let answer = self.ask("tools/call", call).await?;
        ensure!(answer.contains("succeeded"), "the cell failed: {answer}");
        Ok(())
    }
}

/// Milliseconds that are added, cell by cell.
pub(super) async fn added_by_mcp(session: Session, repetitions: usize) -> anyhow::Result<Vec<f64>> {
    let mut client = Client::start().await?;
    let alone = async || Ok(session.run(ADDED_CODE).await.map(drop)?);
    let values = added_by(repetitions, alone, async || client.run().await).await?;
    session.close().await;
    Ok(values)
}

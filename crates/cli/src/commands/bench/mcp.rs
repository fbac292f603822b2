//! What the Model Context Protocol adds to a cell: a client's round trip through `cellblock mcp`, minus the same cell without it.

use super::measure::GAP;
use anyhow::{Context as _, ensure};
use cellblock::Session;
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::Instant;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

const CODE: &str = "x = 1";

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
        let call =
            json!({"name": "execute_python_code", "arguments": {"python_code_snippet": CODE}});
        let answer = self.ask("tools/call", call).await?;
        ensure!(answer.contains("succeeded"), "the cell failed: {answer}");
        Ok(())
    }
}

/// Milliseconds that are added, cell by cell.
pub(super) async fn added(session: Session, repetitions: usize) -> anyhow::Result<Vec<f64>> {
    let mut client = Client::start().await?;
    client.run().await?;
    let mut values = Vec::new();
    for _ in 0..repetitions {
        tokio::time::sleep(GAP).await;
        let begun = Instant::now();
        session.run(CODE).await?;
        let alone = begun.elapsed();
        tokio::time::sleep(GAP).await;
        let begun = Instant::now();
        client.run().await?;
        values.push((begun.elapsed().as_secs_f64() - alone.as_secs_f64()) * 1e3);
    }
    session.close().await;
    Ok(values)
}

//! `cellblock serve`: what HTTP adds to a cell, the memory of an idle server, and how soon a reader sees what the model says.

use super::agent::{COMMAND_TIMEOUT, Endpoint, own, peak};
use super::{ADDED_CODE, added_by};
use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;

/// How long a process settles before its memory is looked at.
const SETTLE_TIME: Duration = Duration::from_millis(300);

/// Milliseconds that a request takes longer than the same cell of `cellblock pipe`, cell by cell.
pub(super) async fn added_by_http(repetitions: usize) -> anyhow::Result<Vec<f64>> {
    let mut pipe = Pipe::start()?;
    let server = Server::start(None).await?;
    let mut client = Client::connect(&server.address).await?;
    let opened = client.post("/v1/sessions", &json!({})).await?;
    let id = opened["id"].as_str().context("a session has no id")?;
    let path = format!("/v1/sessions/{id}/cells?wait=1");
    let cell = json!({"code": ADDED_CODE});
    let alone = async || pipe.run(ADDED_CODE).await;
    let call = async || {
        let result = client.post(&path, &cell).await?;
        ensure!(result["status"] == "success", "the cell failed: {result}");
        Ok(())
    };
    added_by(repetitions, alone, call).await
}

/// A `cellblock pipe` of this very program, which ends with the value.
struct Pipe {
    _child: Child,
    requests: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    _place: TempDir,
}

impl Pipe {
    fn start() -> anyhow::Result<Pipe> {
        let place = tempfile::tempdir()?;
        let mut command = own("pipe", place.path())?;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let requests = child.stdin.take().context("no standard input")?;
        let lines = child.stdout.take().context("no standard output")?;
        Ok(Pipe {
            _child: child,
            requests,
            lines: BufReader::new(lines).lines(),
            _place: place,
        })
    }

    async fn run(&mut self, code: &str) -> anyhow::Result<()> {
        let mut request = json!({"id": 1, "op": "run", "code": code}).to_string();
        request.push('\n');
        self.requests.write_all(request.as_bytes()).await?;
        while let Some(line) = timeout(COMMAND_TIMEOUT, self.lines.next_line()).await?? {
            let answer: Value = serde_json::from_str(&line)?;
            match answer["event"].as_str() {
                Some("result") => {
                    let status = &answer["result"]["status"];
                    ensure!(status == "success", "the cell failed: {answer}");
                    return Ok(());
                }
                Some("error") => anyhow::bail!("the pipe refused the cell: {answer}"),
                _ => {}
            }
        }
        anyhow::bail!("the pipe ended before the result of a cell")
    }
}

/// Megabytes of an idle server above an idle `cellblock pipe`.
pub(super) async fn memory(repetitions: usize) -> anyhow::Result<Vec<f64>> {
    let place = tempfile::tempdir()?;
    let mut values = Vec::new();
    for _ in 0..repetitions.max(1) {
        let mut pipe = own("pipe", place.path())?.stdin(Stdio::piped()).spawn()?;
        tokio::time::sleep(SETTLE_TIME).await;
        let without = peak(&pipe);
        // To close its input ends it.
        drop(pipe.stdin.take());
        timeout(COMMAND_TIMEOUT, pipe.wait()).await??;
        let server = Server::start(None).await?;
        tokio::time::sleep(SETTLE_TIME).await;
        let (without, with) = without
            .zip(peak(&server.child))
            .context("a process may not be looked at")?;
        values.push(with.saturating_sub(without) as f64 / 1e3);
    }
    Ok(values)
}

/// Milliseconds from the reply of a model to the first of it at a reader of `/v1/chat/completions`.
pub(super) async fn first_bytes(repetitions: usize) -> anyhow::Result<Vec<f64>> {
    let mut endpoint = Endpoint::open(0).await?;
    let server = Server::start(Some(&endpoint.url)).await?;
    let question = json!({"stream": true, "messages": [{"role": "user", "content": "How far?"}]});
    let mut values = Vec::new();
    for _ in 0..repetitions.max(1) {
        let mut client = Client::connect(&server.address).await?;
        client.send("/v1/chat/completions", &question).await?;
        let seen = timeout(COMMAND_TIMEOUT, client.line_with("done")).await??;
        let asked = timeout(COMMAND_TIMEOUT, endpoint.asked()).await?;
        let asked = asked.context("the model was not asked")?;
        values.push((seen - asked).as_secs_f64() * 1e3);
    }
    Ok(values)
}

/// A server of this very program, which ends with the value.
struct Server {
    child: Child,
    address: String,
    /// Held open: the server writes to it.
    _said: Lines<BufReader<ChildStderr>>,
    _place: TempDir,
}

impl Server {
    async fn start(model: Option<&str>) -> anyhow::Result<Server> {
        let place = tempfile::tempdir()?;
        let mut command = own("serve", place.path())?;
        command.args(["--no-auth", "--listen", "127.0.0.1:0", "--data"]);
        command.arg(place.path().join("data"));
        if let Some(url) = model {
            command.args([
                "--format",
                "markdown",
                "--model",
                "bench",
                "--base-url",
                url,
            ]);
        }
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let said = child.stderr.take().context("no standard error")?;
        let mut said = BufReader::new(said).lines();
        let address = timeout(COMMAND_TIMEOUT, async {
            while let Some(line) = said.next_line().await? {
                if let Some((_, address)) = line.split_once("serving at http://") {
                    return Ok(address.trim().to_owned());
                }
            }
            anyhow::bail!("the server ended before it served")
        })
        .await??;
        Ok(Server {
            child,
            address,
            _said: said,
            _place: place,
        })
    }
}

/// One connection to a server.
struct Client {
    stream: BufReader<TcpStream>,
    address: String,
}

impl Client {
    async fn connect(address: &str) -> anyhow::Result<Client> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Client {
            stream: BufReader::new(stream),
            address: address.to_owned(),
        })
    }

    async fn send(&mut self, path: &str, body: &Value) -> anyhow::Result<()> {
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nX-Cellblock: 1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        Ok(self.stream.write_all(request.as_bytes()).await?)
    }

    /// Sends a request and reads its answer.
    async fn post(&mut self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.send(path, body).await?;
        let (mut length, mut status) = (0, String::new());
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).await? <= 2 {
                break;
            }
            let line = line.to_ascii_lowercase();
            match line.strip_prefix("content-length:") {
                Some(value) => length = value.trim().parse()?,
                None if status.is_empty() => status = line,
                None => {}
            }
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer).await?;
        let text = String::from_utf8_lossy(&answer);
        ensure!(
            status.starts_with("http/1.1 2"),
            "{}: {text}",
            status.trim()
        );
        Ok(serde_json::from_slice(&answer)?)
    }

    /// When a line with this text came.
    async fn line_with(&mut self, text: &str) -> anyhow::Result<Instant> {
        let mut line = String::new();
        while self.stream.read_line(&mut line).await? > 0 {
            if line.contains(text) {
                return Ok(Instant::now());
            }
            line.clear();
        }
        anyhow::bail!("the stream ended without `{text}`")
    }
}

//! What the agent costs beside its model and its code.

use anyhow::{Context as _, ensure};
use cellblock::agent::{
    Agent, CancellationToken, Format, NoopExecutor, RunLimits, RunStart, RunStore, executor,
};
use cellblock::model::{Reply, ScriptedModel};
use cellblock::{Host, SessionOptions};
use serde_json::json;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const STEPS: usize = 200;
const AT_ONCE: usize = 50;

/// How long a command may take before something is wrong.
pub(super) const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// Milliseconds for each of 200 steps, with a model that answers at once, code that does nothing, and a record that is kept.
pub(super) async fn steps(repetitions: usize) -> anyhow::Result<Vec<f64>> {
    let place = tempfile::tempdir()?;
    let store = RunStore::new(place.path());
    let mut values = Vec::new();
    for _ in 0..repetitions {
        let model = ScriptedModel::from_fn(|_, index| {
            Ok(Reply::text(match index {
                STEPS => "done".to_owned(),
                _ => format!("Next.\n```python\nstep = {index}\n```"),
            }))
        });
        let limits = RunLimits {
            steps: STEPS + 1,
            ..RunLimits::default()
        };
        let agent = Agent::builder()
            .model(model)
            .executor(NoopExecutor)
            .format(Format::Markdown)
            .limits(limits)
            .build()?;
        let writer = Mutex::new(store.start_run(RunStart::default())?);
        let observer = Arc::new(move |event: &_| {
            let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
            // The time is what is asked for here.
            let _ = writer.keep_event(event);
        });
        let begun = Instant::now();
        let outcome = agent.run_observed("How far?", observer, CancellationToken::new());
        let outcome = outcome.await?;
        ensure!(outcome.steps.len() == STEPS, "it ended: {}", outcome.status);
        values.push(begun.elapsed().as_secs_f64() * 1e3 / STEPS as f64);
    }
    Ok(values)
}

/// Milliseconds until 50 runs, each with a session of its own, all have their answers.
pub(super) async fn at_once(host: &Host, repetitions: usize) -> anyhow::Result<Vec<f64>> {
    let mut values = Vec::new();
    for _ in 0..repetitions {
        let begun = Instant::now();
        let mut running = tokio::task::JoinSet::new();
        for number in 0..AT_ONCE {
            let code = format!("```python\nprint({number} * 2)\n```");
            let answer = (number * 2).to_string();
            let model = ScriptedModel::new([Reply::text(code), Reply::text(answer)]);
            let agent = Agent::builder()
                .model(model)
                .executor(executor(
                    host.clone(),
                    SessionOptions::default(),
                    Vec::new(),
                ))
                .format(Format::Markdown)
                .build()?;
            running.spawn(async move {
                let outcome = agent.run("Twice?").await?;
                let printed = format!("{}\n", number * 2);
                let is_right = outcome
                    .cells()
                    .filter_map(|done| done.result.as_ref())
                    .any(|result| result.stdout == printed);
                anyhow::Ok(is_right && outcome.answer.is_some())
            });
        }
        while let Some(ended) = running.join_next().await {
            ensure!(ended??, "one of the runs has no answer");
        }
        values.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(values)
}

/// Milliseconds from the start of `cellblock ask` to its first request.
pub(super) async fn first_requests(repetitions: usize) -> anyhow::Result<Vec<f64>> {
    let place = tempfile::tempdir()?;
    let mut endpoint = Endpoint::open(0).await?;
    let mut values = Vec::new();
    for _ in 0..repetitions {
        let begun = Instant::now();
        let mut child = ask(&endpoint, place.path())?;
        let asked = timeout(COMMAND_TIMEOUT, endpoint.asked()).await;
        values.push((asked?.context("the endpoint ended")? - begun).as_secs_f64() * 1e3);
        timeout(COMMAND_TIMEOUT, child.wait()).await??;
    }
    Ok(values)
}

/// Megabytes that a run of 20 steps takes at most, above a `cellblock` that only waits.
pub(super) async fn memory(repetitions: usize) -> anyhow::Result<Vec<f64>> {
    let place = tempfile::tempdir()?;
    let mut values = Vec::new();
    for _ in 0..repetitions {
        let mut idle = own("pipe", place.path())?.stdin(Stdio::piped()).spawn()?;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let without = peak(&idle);
        // To close its input ends it.
        drop(idle.stdin.take());
        timeout(COMMAND_TIMEOUT, idle.wait()).await??;

        let mut endpoint = Endpoint::open(19).await?;
        let mut child = ask(&endpoint, place.path())?;
        let mut most = None;
        while let Ok(Some(_)) = timeout(COMMAND_TIMEOUT, endpoint.asked()).await {
            most = peak(&child).or(most);
            if endpoint.is_over() {
                break;
            }
        }
        timeout(COMMAND_TIMEOUT, child.wait()).await??;
        let (without, most) = without
            .zip(most)
            .context("a process may not be looked at")?;
        values.push(most.saturating_sub(without) as f64 / 1e3);
    }
    Ok(values)
}

/// `cellblock ask` with everything of its own in this directory.
fn ask(endpoint: &Endpoint, place: &Path) -> anyhow::Result<Child> {
    let mut command = own("ask", place)?;
    command.args(["How far?", "--quiet", "--stdlib", "--format", "markdown"]);
    command.args(["--model", "bench", "--base-url", &endpoint.url]);
    Ok(command.stdin(Stdio::null()).spawn()?)
}

pub(super) fn own(command: &str, place: &Path) -> anyhow::Result<Command> {
    let own = std::env::current_exe().context("where is this program?")?;
    let mut program = Command::new(own);
    program
        .arg(command)
        .env("CELLBLOCK_CONFIG", "/dev/null")
        .env("XDG_STATE_HOME", place)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    Ok(program)
}

/// The most memory that a process has had so far, in kilobytes.
pub(super) fn peak(child: &Child) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{}/status", child.id()?)).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A server on loopback that ends with this value.
pub(super) struct Endpoint {
    pub(super) url: String,
    asked: UnboundedReceiver<Instant>,
    left: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Endpoint {
    /// Gives code for this many steps.
    pub(super) async fn open(steps: usize) -> anyhow::Result<Endpoint> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/v1", listener.local_addr()?);
        let (sender, asked) = unbounded_channel();
        // The answer is one more.
        let left = Arc::new(AtomicUsize::new(steps + 1));
        let serving = tokio::spawn(serve(listener, sender, Arc::clone(&left)));
        Ok(Endpoint {
            url,
            asked,
            left,
            serving,
        })
    }

    /// When the next request came.
    pub(super) async fn asked(&mut self) -> Option<Instant> {
        self.asked.recv().await
    }

    /// Whether the answer was given.
    pub(super) fn is_over(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, asked: UnboundedSender<Instant>, left: Arc<AtomicUsize>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (asked, left) = (asked.clone(), Arc::clone(&left));
        tokio::spawn(async move {
            // A client may disconnect.
            let _ = answer(stream, &asked, &left).await;
        });
    }
}

async fn answer(
    stream: TcpStream,
    asked: &UnboundedSender<Instant>,
    left: &AtomicUsize,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? <= 2 {
            break;
        }
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let came = Instant::now();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        Some(left.saturating_sub(1))
    });
    // The receiver may be gone.
    let _ = asked.send(came);
    let text = match before {
        Ok(2..) => "Next.\n```python\nx = 1\n```",
        _ => "done",
    };
    let chunk =
        json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]});
    let body = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n";
    let whole = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(whole.as_bytes()).await?;
    stream.flush().await
}

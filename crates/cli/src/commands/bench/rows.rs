//! What is promised, and how it is measured.

use super::agent;
use super::environments;
use super::mcp;
use super::memory;
use super::network;
use super::samples::{Samples, Unit};
use super::tools;
use anyhow::{Context as _, ensure};
use cellblock::{Cell, Event, Host, Isolation, Limits, Session, StateOutcome, Status, Strategy};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// One promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    PooledSession,
    SessionOnDemand,
    DirectCell,
    ArmedCell,
    CellBackToBack,
    Segfault,
    TimeOut,
    OutOfMemory,
    Undo,
    Fork,
    ToolCall,
    ThousandCalls,
    OverlappingCalls,
    Checking,
    Mcp,
    Proxy,
    ProxyThroughput,
    CachedEnvironment,
    WarmEnvironment,
    IdleSession,
    Flood,
    Exec,
    LargeFrame,
    AgentStep,
    AgentMemory,
    RunsAtOnce,
    FirstRequest,
}

/// Whether a promise holds here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Kept,
    Missed,
}

impl Row {
    pub(crate) const ALL: [Row; 27] = [
        Row::PooledSession,
        Row::SessionOnDemand,
        Row::DirectCell,
        Row::ArmedCell,
        Row::CellBackToBack,
        Row::Segfault,
        Row::TimeOut,
        Row::OutOfMemory,
        Row::Undo,
        Row::Fork,
        Row::ToolCall,
        Row::ThousandCalls,
        Row::OverlappingCalls,
        Row::Checking,
        Row::Mcp,
        Row::Proxy,
        Row::ProxyThroughput,
        Row::CachedEnvironment,
        Row::WarmEnvironment,
        Row::IdleSession,
        Row::Flood,
        Row::Exec,
        Row::LargeFrame,
        Row::AgentStep,
        Row::AgentMemory,
        Row::RunsAtOnce,
        Row::FirstRequest,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Row::PooledSession => "session from the pool, with its first cell",
            Row::SessionOnDemand => "session on demand, with its first cell",
            Row::DirectCell => "cell `1+1`, strategy direct",
            Row::ArmedCell => "cell `x = 1`, armed, 20 ms apart",
            Row::CellBackToBack => "cell `x = 1`, armed, back to back",
            Row::Segfault => "segfault to the next cell",
            Row::TimeOut => "time-out to the next cell",
            Row::OutOfMemory => "memory kill to the next cell",
            Row::Undo => "undo",
            Row::Fork => "fork",
            Row::ToolCall => "tool call from inside a cell",
            Row::ThousandCalls => "1 000 tool calls in one cell",
            Row::OverlappingCalls => "100 tool calls of 20 ms at the same time",
            Row::Checking => "checking the arguments of a tool call",
            Row::Mcp => "what MCP adds to a cell `x = 1`",
            Row::Proxy => "what the network's guard adds to a request",
            Row::ProxyThroughput => "1 GB through the network's guard",
            Row::CachedEnvironment => "environment that was made before",
            Row::WarmEnvironment => {
                "session from the pool of another environment, with its first cell"
            }
            Row::IdleSession => "memory of one more idle session",
            Row::Flood => "100 MB printed",
            Row::Exec => "`cellblock exec -c 1+1`, the whole command",
            Row::LargeFrame => "cell `x = 1` beside 1 GB of data, minus the same without",
            Row::AgentStep => "what the agent adds to each of 200 steps",
            Row::AgentMemory => "memory of `cellblock ask` above an idle `cellblock`",
            Row::RunsAtOnce => "50 runs of the agent at once, until all have answered",
            Row::FirstRequest => "start of `cellblock ask` to its first request",
        }
    }

    pub(crate) fn promise(self) -> f64 {
        match self {
            Row::PooledSession | Row::WarmEnvironment | Row::ArmedCell => 0.15,
            Row::SessionOnDemand | Row::CachedEnvironment | Row::Undo | Row::LargeFrame => 5.0,
            Row::DirectCell | Row::ToolCall => 0.06,
            Row::ThousandCalls => 80.0,
            Row::Mcp | Row::Proxy => 1.0,
            Row::ProxyThroughput => 500.0,
            Row::OverlappingCalls => 100.0,
            Row::Checking => 0.02,
            Row::CellBackToBack => 2.0,
            Row::Fork => 8.0,
            Row::Segfault | Row::TimeOut | Row::OutOfMemory => 10.0,
            Row::IdleSession => 6.0,
            Row::Flood => 200.0,
            Row::Exec => 60.0,
            Row::AgentStep => 2.0,
            Row::AgentMemory => 30.0,
            Row::RunsAtOnce => 5_000.0,
            Row::FirstRequest => 80.0,
        }
    }

    pub(crate) fn unit(self) -> Unit {
        match self {
            Row::IdleSession | Row::AgentMemory => Unit::Megabytes,
            Row::Flood | Row::ProxyThroughput => Unit::MegabytesPerSecond,
            _ => Unit::Milliseconds,
        }
    }

    /// The side of the promise that is good.
    pub(crate) fn bound(self) -> &'static str {
        if self.unit() == Unit::MegabytesPerSecond {
            "≥"
        } else {
            "≤"
        }
    }

    pub(crate) fn verdict(self, samples: &Samples) -> Verdict {
        let median = samples.quantile(0.5);
        let kept = if self.unit() == Unit::MegabytesPerSecond {
            median >= self.promise()
        } else {
            median <= self.promise()
        };
        if kept { Verdict::Kept } else { Verdict::Missed }
    }

    pub(crate) fn to_json(self, samples: &Samples) -> Value {
        json!({
            "name": self.name(),
            "unit": self.unit().name(),
            "promise": self.promise(),
            "bound": self.bound(),
            "median": samples.quantile(0.5),
            "p10": samples.quantile(0.1),
            "p90": samples.quantile(0.9),
            "repetitions": samples.count(),
            "kept": self.verdict(samples) == Verdict::Kept,
        })
    }
}

/// Where it is measured.
pub(crate) struct Bench {
    pub(crate) host: Host,
    pub(crate) repetitions: usize,
}

pub(crate) const GAP: Duration = Duration::from_millis(20);
const SEGFAULT: &str = "import ctypes; ctypes.string_at(0)";

impl Bench {
    pub(crate) async fn measure(&self, row: Row) -> anyhow::Result<Samples> {
        let values = match row {
            Row::PooledSession => self.pooled_session().await?,
            Row::SessionOnDemand => self.sessions_on_demand(GAP).await?,
            Row::DirectCell => {
                self.cells(self.session(Strategy::Direct).await?, "1+1", None)
                    .await?
            }
            Row::ArmedCell => {
                self.cells(self.session(Strategy::Process).await?, "x = 1", Some(GAP))
                    .await?
            }
            Row::CellBackToBack => {
                self.cells(self.session(Strategy::Process).await?, "x = 1", None)
                    .await?
            }
            Row::Segfault => {
                self.recoveries(Cell::new(SEGFAULT), Duration::ZERO, Limits::default())
                    .await?
            }
            Row::TimeOut => {
                let limit = Duration::from_millis(50);
                let endless = Cell::new("while True: pass").timeout(limit.as_secs_f64());
                self.recoveries(endless, limit, Limits::default()).await?
            }
            Row::OutOfMemory => self.memory_kills().await?,
            Row::Undo => self.undos().await?,
            Row::Fork => self.forks().await?,
            Row::ToolCall => tools::single_calls(self.session(Strategy::Direct).await?).await?,
            Row::ThousandCalls => {
                tools::thousand_calls(self.session(Strategy::Direct).await?, self.repetitions / 5)
                    .await?
            }
            Row::OverlappingCalls => {
                tools::overlapping_calls(
                    self.session(Strategy::Direct).await?,
                    self.repetitions / 5,
                )
                .await?
            }
            Row::Mcp => {
                mcp::added(self.session(Strategy::Process).await?, self.repetitions).await?
            }
            Row::Proxy => network::added(&self.host, self.repetitions).await?,
            Row::ProxyThroughput => network::throughput(&self.host).await?,
            Row::Checking => tools::checks(self.repetitions)?,
            Row::CachedEnvironment => {
                environments::found_again(&self.host, self.repetitions).await?
            }
            Row::WarmEnvironment => {
                environments::pooled_session(&self.host, self.repetitions).await?
            }
            Row::IdleSession => self.idle_sessions().await?,
            Row::Flood => self.floods().await?,
            Row::Exec => self.commands()?,
            Row::LargeFrame => self.beside_large_data().await?,
            Row::AgentStep => agent::steps(self.repetitions / 10).await?,
            Row::AgentMemory => agent::memory(self.repetitions / 20).await?,
            Row::RunsAtOnce => agent::at_once(&self.host, self.repetitions / 20).await?,
            Row::FirstRequest => agent::first_requests(self.repetitions / 5).await?,
        };
        Ok(Samples::new(values))
    }

    pub(super) async fn session(&self, strategy: Strategy) -> anyhow::Result<Session> {
        let session = Session::builder()
            .host(&self.host)
            .strategy(strategy)
            .start()
            .await?;
        session.run("x = 0").await?;
        Ok(session)
    }

    /// A session that no pool holds.
    async fn made_on_demand(&self, memory: u64) -> anyhow::Result<Session> {
        let limits = Limits {
            memory,
            ..Limits::default()
        };
        Ok(Session::builder()
            .host(&self.host)
            .limits(limits)
            .start()
            .await?)
    }

    async fn pooled_session(&self) -> anyhow::Result<Vec<f64>> {
        let runtime = self.host.runtime(&Isolation::default()).await?;
        let mut values = Vec::new();
        for _ in 0..self.repetitions {
            while runtime.pool().ready < runtime.pool().size {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            tokio::time::sleep(GAP).await;
            let begun = Instant::now();
            let session = Session::builder().host(&self.host).start().await?;
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

    async fn cells(
        &self,
        session: Session,
        code: &str,
        gap: Option<Duration>,
    ) -> anyhow::Result<Vec<f64>> {
        let mut values = Vec::new();
        for _ in 0..self.repetitions * 2 {
            if let Some(gap) = gap {
                tokio::time::sleep(gap).await;
            }
            let begun = Instant::now();
            session.run(code).await?;
            values.push(milliseconds(begun.elapsed()));
        }
        session.close().await;
        Ok(values)
    }

    async fn recoveries(
        &self,
        deadly: Cell,
        expected: Duration,
        limits: Limits,
    ) -> anyhow::Result<Vec<f64>> {
        let session = Session::builder()
            .host(&self.host)
            .limits(limits)
            .start()
            .await?;
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
    async fn memory_kills(&self) -> anyhow::Result<Vec<f64>> {
        let limits = Limits {
            memory: 256 << 20,
            ..Limits::default()
        };
        let session = Session::builder()
            .host(&self.host)
            .limits(limits)
            .start()
            .await?;
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

    async fn undos(&self) -> anyhow::Result<Vec<f64>> {
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

    async fn forks(&self) -> anyhow::Result<Vec<f64>> {
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

    async fn idle_sessions(&self) -> anyhow::Result<Vec<f64>> {
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

    async fn floods(&self) -> anyhow::Result<Vec<f64>> {
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

    fn commands(&self) -> anyhow::Result<Vec<f64>> {
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

    async fn beside_large_data(&self) -> anyhow::Result<Vec<f64>> {
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

/// Every session armed and quiet.
async fn settle(sessions: &[Session]) -> anyhow::Result<()> {
    for session in sessions {
        session.checkpoints().await?;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    Ok(())
}

pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

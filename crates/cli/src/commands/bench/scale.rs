//! `cellblock bench --scale`: many sessions on one machine, what they cost, and which bound of the machine they come close to.

mod bounds;

use super::processes::descendants;
use super::rows::Samples;
use super::{BenchArgs, milliseconds};
use crate::process;
use crate::terminal::Console;
use anyhow::{Context as _, ensure};
use bounds::Bound;
use cellblock::{Host, Preload, Session, Status};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many sessions of those that are open run cells.
const ACTIVE_SHARE: usize = 5;
/// The cell of an active session: it changes a variable, so each run makes a checkpoint.
const CELL: &str = "x = 1";
/// How often each of the active sessions runs a cell, and how long they then run cells without a pause.
const PERIOD: Duration = Duration::from_secs(10);
/// The same with `--quick`.
const QUICK_PERIOD: Duration = Duration::from_secs(1);
/// How many cells each of them runs at that pace.
const PERIODS: u32 = 2;
/// Sessions that are opened at the same time.
const OPENED_AT_ONCE: usize = 2;

/// Measures, and prints tables or JSON.
pub(super) fn run(
    args: &BenchArgs,
    sessions: usize,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    let runtime = process::runtime_on_threads(2)?;
    let outcome = runtime.block_on(measure(args, sessions, console));
    runtime.shutdown_background();
    outcome
}

async fn measure(args: &BenchArgs, sessions: usize, console: &Console) -> anyhow::Result<ExitCode> {
    let host = args.python.host_builder(Preload::Full).pool(4).build()?;
    let say = |text: &str| {
        if !args.json {
            console.say(text);
        }
    };
    let period = if args.quick { QUICK_PERIOD } else { PERIOD };
    let memory_before = available_memory()?;
    say("measuring: one session alone");
    let mut held = open(&host, 1).await?.sessions;
    let alone = one_at_a_time(&held[0], PERIODS as usize * 10).await?;
    let mut steps = Vec::new();
    let mut stopped_by = None;
    for target in [100, 200, 500, 1000, 2000, 5000, 10_000] {
        let target = target.min(sessions);
        if held.len() >= sessions || stopped_by.is_some() {
            break;
        }
        say(&format!("measuring: {target} sessions, idle"));
        let before = available_memory()?;
        let opened = open(&host, target.saturating_sub(held.len())).await?;
        let added = opened.sessions.len();
        held.extend(opened.sessions);
        stopped_by = opened.stopped_by;
        settle(&held).await?;
        let memory = before.saturating_sub(available_memory()?);
        steps.push(LoadStep {
            sessions: held.len(),
            opening: opened.times,
            memory_per_session: memory as f64 / added.max(1) as f64 / 1e6,
            beside: one_at_a_time(&held[0], 20).await?,
        });
    }
    let bounds = bounds::all(&bounds::Use {
        sessions: held.len(),
        processes: descendants().context("/proc cannot be read")?.len() as u64,
        memory: memory_before.saturating_sub(available_memory()?),
        memory_before,
    });
    let active = (held.len() / ACTIVE_SHARE).max(1);
    let held: Vec<Arc<Session>> = held.into_iter().map(Arc::new).collect();
    say(&format!(
        "measuring: {active} of them run a cell every {} s",
        period.as_secs()
    ));
    let paced = cells(&held[..active], Pace::Every(period)).await?;
    say(&format!(
        "measuring: {active} of them run cells without a pause"
    ));
    let busy = cells(&held[..active], Pace::WithoutPause(period)).await?;
    say("closing");
    let begun = Instant::now();
    let count = held.len();
    for session in held {
        session.close().await;
    }
    let report = ScaleReport {
        packages: host.has_packages(),
        alone,
        steps,
        stopped_by,
        active,
        period,
        paced,
        busy,
        closing: begun.elapsed(),
        sessions: count,
        bounds,
    };
    if args.json {
        console.print_json(&report.to_json())?;
    } else {
        console.print(&report.to_text())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Sessions that were opened, and why there are not more, if there are not.
struct Opened {
    sessions: Vec<Session>,
    times: Samples,
    stopped_by: Option<String>,
}

/// Opens sessions, each with its first cell. A refusal ends it, and is no error: it is a bound that is looked for.
async fn open(host: &Host, count: usize) -> anyhow::Result<Opened> {
    let mut opened = Opened {
        sessions: Vec::new(),
        times: Samples::new(Vec::new()),
        stopped_by: None,
    };
    let mut times = Vec::new();
    while opened.sessions.len() < count && opened.stopped_by.is_none() {
        let at_once = OPENED_AT_ONCE.min(count - opened.sessions.len());
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..at_once {
            let host = host.clone();
            tasks.spawn(async move {
                let begun = Instant::now();
                let session = host.session().start().await?;
                let result = session.run(CELL).await?;
                anyhow::Ok((session, result.status, begun.elapsed()))
            });
        }
        while let Some(done) = tasks.join_next().await {
            match done? {
                Ok((session, status, time)) => {
                    ensure!(
                        status == Status::Success,
                        "a first cell ended with {status:?}"
                    );
                    opened.sessions.push(session);
                    times.push(milliseconds(time));
                }
                Err(problem) => opened.stopped_by = Some(format!("{problem:#}")),
            }
        }
    }
    ensure!(
        !(opened.sessions.is_empty() && opened.stopped_by.is_some()),
        "no session could be opened: {}",
        opened.stopped_by.unwrap_or_default()
    );
    opened.times = Samples::new(times);
    Ok(opened)
}

/// Every session armed and quiet.
async fn settle(sessions: &[Session]) -> anyhow::Result<()> {
    for session in sessions {
        session.checkpoints().await?;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(())
}

/// Milliseconds of cells of one session, with a pause between them.
async fn one_at_a_time(session: &Session, count: usize) -> anyhow::Result<Samples> {
    let mut values = Vec::new();
    for _ in 0..count {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let begun = Instant::now();
        session.run(CELL).await?;
        values.push(milliseconds(begun.elapsed()));
    }
    Ok(Samples::new(values))
}

/// When an active session runs its next cell: at the beginning of each period, or at once until the time is over.
#[derive(Clone, Copy)]
enum Pace {
    Every(Duration),
    WithoutPause(Duration),
}

/// Cells of many sessions at once.
struct Cells {
    times: Samples,
    elapsed: Duration,
}

impl Cells {
    fn per_second(&self) -> f64 {
        self.times.count() as f64 / self.elapsed.as_secs_f64()
    }
}

async fn cells(sessions: &[Arc<Session>], pace: Pace) -> anyhow::Result<Cells> {
    let mut tasks = tokio::task::JoinSet::new();
    let begun = Instant::now();
    for (at, session) in sessions.iter().enumerate() {
        let session = Arc::clone(session);
        let share = at as f64 / sessions.len() as f64;
        tasks.spawn(async move {
            let mut times = Vec::new();
            match pace {
                Pace::Every(period) => {
                    // Spread over the period, as people are.
                    let offset = period.mul_f64(share);
                    for round in 0..PERIODS {
                        tokio::time::sleep_until((begun + offset + period * round).into()).await;
                        times.push(timed_cell(&session).await?);
                    }
                }
                Pace::WithoutPause(time) => {
                    while begun.elapsed() < time {
                        times.push(timed_cell(&session).await?);
                    }
                }
            }
            anyhow::Ok(times)
        });
    }
    let mut times = Vec::new();
    while let Some(done) = tasks.join_next().await {
        times.extend(done??);
    }
    Ok(Cells {
        times: Samples::new(times),
        elapsed: begun.elapsed(),
    })
}

async fn timed_cell(session: &Session) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let result = session.run(CELL).await?;
    ensure!(
        result.status == Status::Success,
        "a cell ended with {:?}",
        result.status
    );
    Ok(milliseconds(begun.elapsed()))
}

fn available_memory() -> anyhow::Result<u64> {
    process::available_memory().context("/proc/meminfo cannot be read")
}

/// What was measured when so many sessions were open and idle.
struct LoadStep {
    sessions: usize,
    opening: Samples,
    memory_per_session: f64,
    /// Cells of one session, beside the idle ones.
    beside: Samples,
}

struct ScaleReport {
    packages: bool,
    alone: Samples,
    steps: Vec<LoadStep>,
    stopped_by: Option<String>,
    active: usize,
    period: Duration,
    paced: Cells,
    busy: Cells,
    closing: Duration,
    sessions: usize,
    bounds: Vec<Bound>,
}

impl ScaleReport {
    fn cores() -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    fn to_text(&self) -> String {
        let preload = if self.packages {
            "with pandas preloaded"
        } else {
            "standard library only"
        };
        let mut text = format!(
            "\nMany sessions, {preload}, {} cores. One session alone runs `{CELL}` in {} (p50).\n\n\
             | idle sessions | open one: p50 | p99 | memory of one more | cell of one beside them: p50 | p99 |\n\
             | --- | --- | --- | --- | --- | --- |\n",
            ScaleReport::cores(),
            ms(self.alone.quantile(0.5)),
        );
        for step in &self.steps {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {:.1} MB | {} | {} |",
                step.sessions,
                ms(step.opening.quantile(0.5)),
                ms(step.opening.quantile(0.99)),
                step.memory_per_session,
                ms(step.beside.quantile(0.5)),
                ms(step.beside.quantile(0.99)),
            );
        }
        let _ = writeln!(
            text,
            "\n| {} active of {} | cells/s | cells/s per core | p50 | p99 |\n| --- | --- | --- | --- | --- |",
            self.active, self.sessions
        );
        let every = format!("one cell every {} s", self.period.as_secs());
        for (what, cells) in [
            (every.as_str(), &self.paced),
            ("without a pause", &self.busy),
        ] {
            let _ = writeln!(
                text,
                "| {what} | {:.0} | {:.0} | {} | {} |",
                cells.per_second(),
                cells.per_second() / ScaleReport::cores() as f64,
                ms(cells.times.quantile(0.5)),
                ms(cells.times.quantile(0.99)),
            );
        }
        let _ = writeln!(
            text,
            "\nAll {} were closed in {:.1} s.\n\n| bound | used | limit | sessions until it | how to raise it |\n| --- | --- | --- | --- | --- |",
            self.sessions,
            self.closing.as_secs_f64()
        );
        for bound in &self.bounds {
            let _ = writeln!(text, "{}", bound.to_row());
        }
        if let Some(problem) = &self.stopped_by {
            let _ = writeln!(text, "\nNo more sessions could be opened: {problem}");
        }
        text
    }

    fn to_json(&self) -> Value {
        let quantiles = |samples: &Samples| json!({"p50": samples.quantile(0.5), "p99": samples.quantile(0.99), "count": samples.count()});
        let cells = |cells: &Cells| json!({"per_second": cells.per_second(), "ms": quantiles(&cells.times)});
        let steps: Vec<Value> = self
            .steps
            .iter()
            .map(|step| {
                json!({
                    "sessions": step.sessions, "open_ms": quantiles(&step.opening),
                    "memory_mb": step.memory_per_session, "cell_ms": quantiles(&step.beside),
                })
            })
            .collect();
        json!({
            "packages": self.packages, "cores": ScaleReport::cores(), "alone_ms": quantiles(&self.alone), "steps": steps,
            "active": self.active, "period_s": self.period.as_secs(), "paced": cells(&self.paced), "without_pause": cells(&self.busy),
            "closing_s": self.closing.as_secs_f64(), "stopped_by": self.stopped_by,
            "bounds": self.bounds.iter().map(Bound::to_json).collect::<Vec<_>>(),
        })
    }
}

fn ms(value: f64) -> String {
    super::rows::Unit::Milliseconds.show(value)
}

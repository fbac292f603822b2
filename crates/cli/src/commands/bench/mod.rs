//! `cellblock bench`: the promises, measured on this machine.

mod agent;
mod baseline;
#[cfg_attr(not(feature = "cluster"), path = "cluster_absent.rs")]
mod cluster;
mod network;
mod package;
mod processes;
mod rows;
mod scale;
mod server;
mod sessions;
mod tools;

use crate::args::PythonArgs;
use crate::process;
use crate::terminal::{Console, Style};
use baseline::{Bare, BareFork};
use cellblock::{Cell, Host, Limits, Preload, Session, Strategy};
use clap::Args;
use rows::{Measured, Promise, Row, Samples, Unit, Verdict};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Measure only rows whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Fewer repetitions: quicker, noisier
    #[arg(long)]
    quick: bool,
    /// Open this many sessions on this machine instead, and measure what they cost [default: 1000]
    #[arg(long, value_name = "SESSIONS", num_args = 0..=1, default_missing_value = "1000",
          value_parser = clap::value_parser!(u32).range(1..=100_000), conflicts_with = "only")]
    scale: Option<u32>,
    /// Start a cluster of up to three nodes on this machine instead, and measure what it gives and costs
    #[arg(long, conflicts_with = "scale")]
    cluster: bool,
    #[command(flatten)]
    python: PythonArgs,
}

const EXAMPLES: &str = "\
Every number is the median of many repetitions on this machine, now. A busy machine gives large numbers: compare runs only
with runs beside them. Rows about the Python package are measured where `python3`, or the Python that
CELLBLOCK_BENCH_PYTHON names, has it.
With --cluster the program nats-server is needed: that of PATH, or the one that
CELLBLOCK_NATS_SERVER names. --only then takes throughput, latency, failover or move.

Examples:
  cellblock bench
  cellblock bench --only undo
  cellblock bench --json > bench.json
  cellblock bench --scale 200
  cellblock bench --cluster --quick --only failover";

/// Measures, and prints a table or JSON. Ends with 1 when a promise was missed.
pub(crate) fn run(args: BenchArgs, console: &Console) -> anyhow::Result<ExitCode> {
    if let Some(sessions) = args.scale {
        return scale::run(&args, sessions as usize, console);
    }
    if args.cluster {
        return cluster::run(&args, console);
    }
    // One thread, as `exec` and `tools call` have it: a second one is woken by every frame, on the processor that the session needs.
    let runtime = process::runtime_on_this_thread()?;
    let outcome = runtime.block_on(measure(args, console));
    runtime.shutdown_background();
    outcome
}

async fn measure(args: BenchArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let host = args.python.host_builder(Preload::Full).pool(4).build()?;
    let bench = Bench {
        host,
        repetitions: if args.quick { 20 } else { 100 },
        python_with_package: package::python_with_package().await,
    };
    let mut measured = Vec::new();
    for row in Row::ALL {
        if args
            .only
            .as_ref()
            .is_some_and(|wanted| !row.name().contains(wanted.as_str()))
        {
            continue;
        }
        if row.measured_by_package().is_some() && bench.python_with_package.is_none() {
            console.say(&format!(
                "left out, because python3 has no package `cellblock`: {}",
                row.name()
            ));
            continue;
        }
        if !args.json {
            console.say(&format!("measuring: {}", row.name()));
        }
        let bare = match row.promise() {
            Promise::Bound(_) => 0.0,
            // Beside the row, since other programs make a machine slower at some times than at others.
            Promise::TimesBarePython(_) => bench.bare_python().await?.apart,
        };
        measured.push(Measured {
            row,
            samples: bench.measure(row).await?,
            bound: row.promise().bound(bare),
        });
    }
    let repetitions = bench.repetitions;
    let bare = tokio::task::spawn_blocking(move || Bare::message(repetitions, GAP)).await??;
    let computed = bench.bare_python().await?;
    let fork = BareFork::measure(&bench).await?;
    let without_pause = Samples::new(bench.sessions_on_demand(Duration::ZERO).await?).quantile(0.5);
    let missed = measured
        .iter()
        .any(|measured| measured.verdict() == Verdict::Missed);
    if args.json {
        let list: Vec<_> = measured.iter().map(Measured::to_json).collect();
        let report = serde_json::json!({
            "packages": bench.host.has_packages(),
            "rows": list,
            "bare_round_trip_ms": {"back_to_back": bare.back_to_back, "apart": bare.apart},
            "bare_python_ms": {"back_to_back": computed.back_to_back, "apart": computed.apart},
            "bare_fork_ms": {"made": fork.made, "ended": fork.ended},
            "session_on_demand_without_pause_ms": without_pause,
        });
        console.print_json(&report)?;
    } else {
        print_table(&measured, bench.host.has_packages(), console)?;
        console.print(&format!(
            "\nFor scale: 100 bytes to another process and back, with nothing done to them, take {} here, and {} when both slept for 20 ms before. \
             A bare Python that computes `1+1` from a pipe, with no walls and no checkpoint, takes {}, and {} after 20 ms of sleep. \
             A bare fork of the same Python takes {}, and {} until the copy, which does nothing, has ended. Undo ends one process; a cell back to back \
             makes one, a fork two. The two of a session on demand were made in the pause before it; asked for without a pause, one after the other, each takes {}.\n",
            Unit::Milliseconds.show(bare.back_to_back),
            Unit::Milliseconds.show(bare.apart),
            Unit::Milliseconds.show(computed.back_to_back),
            Unit::Milliseconds.show(computed.apart),
            Unit::Milliseconds.show(fork.made),
            Unit::Milliseconds.show(fork.ended),
            Unit::Milliseconds.show(without_pause),
        ))?;
    }
    Ok(if missed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn print_table(measured: &[Measured], packages: bool, console: &Console) -> anyhow::Result<()> {
    let preload = if packages {
        "with pandas preloaded"
    } else {
        "standard library only: run `cellblock setup` for pandas"
    };
    let mut table = format!(
        "\nMedians, {preload}\n\n| what | promise | median | 10 % to 90 % | |\n| --- | --- | --- | --- | --- |\n"
    );
    for measured in measured {
        let (unit, samples) = (measured.row.unit(), &measured.samples);
        let verdict = match measured.verdict() {
            Verdict::Kept => console.on_out(Style::Good, "kept"),
            Verdict::Missed => console.on_out(Style::Error, "missed"),
        };
        let show = |value: f64| unit.show(value);
        table.push_str(&format!(
            "| {} | {} | {} | {} to {} | {verdict} |\n",
            measured.row.name(),
            measured.promise_text(),
            show(samples.quantile(0.5)),
            show(samples.quantile(0.1)),
            show(samples.quantile(0.9)),
        ));
    }
    Ok(console.print(&table)?)
}

/// Where it is measured.
pub(crate) struct Bench {
    pub(crate) host: Host,
    pub(crate) repetitions: usize,
    /// A Python that has the package `cellblock`, which measures the rows about it.
    python_with_package: Option<PathBuf>,
}

pub(crate) const GAP: Duration = Duration::from_millis(20);
/// The cell of the rows about what a way in adds.
const ADDED_CODE: &str = "x = 1";
const SEGFAULT: &str = "import ctypes; ctypes.string_at(0)";

impl Bench {
    pub(crate) async fn measure(&self, row: Row) -> anyhow::Result<Samples> {
        if let (Some(name), Some(python)) = (row.measured_by_package(), &self.python_with_package) {
            let values = package::samples(python, name, self.repetitions).await?;
            return Ok(Samples::new(values));
        }
        let values = match row {
            Row::PooledSession => self.pooled_session().await?,
            Row::SessionOnDemand => self.sessions_on_demand(GAP).await?,
            Row::DirectCell => self.cells(Strategy::Direct, "1+1", Duration::ZERO).await?,
            Row::ArmedCell => self.cells(Strategy::Process, "x = 1", GAP).await?,
            Row::UnchangingCell => self.cells(Strategy::Process, "1+1", Duration::ZERO).await?,
            Row::ChangingCell => {
                self.cells(Strategy::Process, "x = 1", Duration::ZERO)
                    .await?
            }
            Row::Segfault => self.recoveries(Cell::new(SEGFAULT), Duration::ZERO).await?,
            Row::TimeOut => {
                let limit = Duration::from_millis(50);
                let endless = Cell::new("while True: pass").timeout(limit);
                self.recoveries(endless, limit).await?
            }
            Row::OutOfMemory => self.memory_kills().await?,
            Row::Undo => self.undos().await?,
            Row::Fork => self.forks().await?,
            Row::Spawn => self.spawns().await?,
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
                tools::added_by_mcp(self.session(Strategy::Process).await?, self.repetitions)
                    .await?
            }
            Row::Proxy => network::added(&self.host, self.repetitions).await?,
            Row::ProxyThroughput => network::throughput(&self.host).await?,
            Row::Checking => tools::checks(self.repetitions)?,
            Row::CachedEnvironment => {
                sessions::cached_environment(&self.host, self.repetitions).await?
            }
            Row::WarmEnvironment => {
                sessions::session_in_environment(&self.host, self.repetitions).await?
            }
            Row::IdleSession => self.idle_sessions().await?,
            Row::Flood => self.floods().await?,
            Row::Exec => self.commands()?,
            Row::LargeFrame => self.beside_large_data().await?,
            Row::AgentStep => agent::steps(self.repetitions / 10).await?,
            Row::AgentMemory => agent::memory(self.repetitions / 20).await?,
            Row::RunsAtOnce => agent::at_once(&self.host, self.repetitions / 20).await?,
            Row::FirstRequest => agent::first_requests(self.repetitions / 5).await?,
            Row::ServerCell => server::added_by_http(self.repetitions).await?,
            Row::ServerMemory => server::memory(self.repetitions / 20).await?,
            Row::ServerFirstByte => server::first_bytes(self.repetitions / 5).await?,
            Row::PackageImport
            | Row::PackageSession
            | Row::PackageCell
            | Row::PackageTool
            | Row::PackageSpawn
            | Row::PackageFileIn
            | Row::PackageFileOut => anyhow::bail!("no Python with the package was found"),
        };
        Ok(Samples::new(values))
    }

    async fn session(&self, strategy: Strategy) -> anyhow::Result<Session> {
        let session = self.host.session().strategy(strategy).start().await?;
        session.run("x = 0").await?;
        Ok(session)
    }

    /// The least that a cell could take, by the Python of the sessions.
    async fn bare_python(&self) -> anyhow::Result<Bare> {
        let session = self.session(Strategy::Direct).await?;
        let python = session.python().to_owned();
        session.close().await;
        let repetitions = self.repetitions;
        let measure = move || Bare::python(&python, repetitions, GAP);
        Ok(tokio::task::spawn_blocking(measure).await??)
    }

    /// A session that no pool holds.
    async fn made_on_demand(&self, memory: u64) -> anyhow::Result<Session> {
        let limits = Limits {
            memory,
            ..Limits::default()
        };
        Ok(self.host.session().limits(limits).start().await?)
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Milliseconds that a way in adds to a cell, cell by cell: `call` runs [`ADDED_CODE`] there, and `alone` runs it just before without
/// that way.
async fn added_by(
    repetitions: usize,
    mut alone: impl AsyncFnMut() -> anyhow::Result<()>,
    mut call: impl AsyncFnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Vec<f64>> {
    alone().await?;
    call().await?;
    let mut values = Vec::new();
    for _ in 0..repetitions {
        tokio::time::sleep(GAP).await;
        let begun = Instant::now();
        alone().await?;
        let without = begun.elapsed();
        tokio::time::sleep(GAP).await;
        let begun = Instant::now();
        call().await?;
        values.push((begun.elapsed().as_secs_f64() - without.as_secs_f64()) * 1e3);
    }
    Ok(values)
}

//! `cellblock bench --cluster`: what more than one node gives and costs. Everything runs on this machine: servers of the engine, nodes and
//! callers.

mod processes;

use super::rows::Samples;
use super::{ADDED_CODE, BenchArgs, GAP, milliseconds};
use crate::cell_run::Signals;
use crate::process;
use crate::terminal::{Console, Style};
use anyhow::Context as _;
use processes::{Engine, Server};
use serde_json::json;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The most nodes that are measured.
const MAX_NODES: usize = 3;
/// How many callers work at the same time, each with a session of its own.
const CALLERS: usize = 6;
/// The cells of a session before its node is lost or drained: they are run again elsewhere.
const CELLS_BEFORE: usize = 5;

/// One number that is measured.
#[derive(Clone, Debug)]
struct Measured {
    name: String,
    unit: &'static str,
    /// The highest good median, where something is promised.
    promise: Option<f64>,
    samples: Samples,
}

/// What is measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Experiment {
    Throughput,
    Latency,
    Failover,
    Moves,
}

impl Experiment {
    const ALL: [Experiment; 4] = [
        Experiment::Throughput,
        Experiment::Latency,
        Experiment::Failover,
        Experiment::Moves,
    ];

    /// The beginning of the names of its rows.
    fn name(self) -> &'static str {
        match self {
            Experiment::Throughput => "throughput",
            Experiment::Latency => "latency",
            Experiment::Failover => "failover",
            Experiment::Moves => "move",
        }
    }
}

/// Measures, and prints a table or JSON. Ends with 1 when a promise was missed.
pub(super) fn run(args: &BenchArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let runtime = process::runtime_on_threads(2)?;
    let outcome = runtime.block_on(async {
        let mut signals = Signals::new()?;
        // To drop what is measured ends all processes that were started for it.
        tokio::select! {
            outcome = measure(args, console) => outcome,
            signal = signals.next() => Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))),
        }
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
    outcome
}

async fn measure(args: &BenchArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let engine = Engine::start()?;
    let bench = ClusterBench {
        args,
        engine,
        repetitions: if args.quick { 30 } else { 200 },
        losses: if args.quick { 3 } else { 10 },
        time: Duration::from_secs(if args.quick { 2 } else { 8 }),
    };
    let mut measured = Vec::new();
    for part in Experiment::ALL {
        let is_wanted = |wanted: &String| part.name().contains(wanted.as_str());
        if args.only.as_ref().is_some_and(|wanted| !is_wanted(wanted)) {
            continue;
        }
        if !args.json {
            console.say(&format!("measuring: {}", part.name()));
        }
        measured.extend(match part {
            Experiment::Throughput => bench.throughput().await?,
            Experiment::Latency => bench.latency().await?,
            Experiment::Failover => bench.failover().await?,
            Experiment::Moves => bench.moves().await?,
        });
    }
    anyhow::ensure!(
        !measured.is_empty(),
        "--only: the parts are throughput, latency, failover and move"
    );
    let is_missed = measured.iter().any(|row| row.is_kept() == Some(false));
    if args.json {
        let rows: Vec<_> = measured.iter().map(Measured::to_json).collect();
        console.print_json(&json!({"nodes": MAX_NODES, "callers": CALLERS, "rows": rows}))?;
    } else {
        console.print(&table(&measured, console))?;
    }
    Ok(ExitCode::from(u8::from(is_missed)))
}

fn table(measured: &[Measured], console: &Console) -> String {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut text = format!(
        "\nThree servers of the engine, the nodes and {CALLERS} callers on one machine with {processors} processors\n\n\
         | what | promise | median | 10 % to 90 % | most | |\n| --- | --- | --- | --- | --- | --- |\n"
    );
    for row in measured {
        let promise = row
            .promise
            .map(|promise| format!("≤ {}", row.show(promise)));
        let verdict = match row.is_kept() {
            Some(true) => console.on_out(Style::Good, "kept"),
            Some(false) => console.on_out(Style::Error, "missed"),
            None => String::new(),
        };
        text.push_str(&format!(
            "| {} | {} | {} | {} to {} | {} | {verdict} |\n",
            row.name,
            promise.unwrap_or_default(),
            row.show(row.samples.quantile(0.5)),
            row.show(row.samples.quantile(0.1)),
            row.show(row.samples.quantile(0.9)),
            row.show(row.samples.quantile(1.0)),
        ));
    }
    text
}

impl Measured {
    fn new(part: Experiment, what: &str, unit: &'static str, values: Vec<f64>) -> Measured {
        Measured {
            name: format!("{}: {what}", part.name()),
            unit,
            promise: None,
            samples: Samples::new(values),
        }
    }

    fn promised(mut self, promise: f64) -> Measured {
        self.promise = Some(promise);
        self
    }

    fn is_kept(&self) -> Option<bool> {
        self.promise
            .map(|promise| self.samples.quantile(0.5) <= promise)
    }

    fn show(&self, value: f64) -> String {
        let digits = if value.abs() < 10.0 { 2 } else { 0 };
        format!("{value:.digits$} {}", self.unit)
    }

    fn to_json(&self) -> serde_json::Value {
        json!({
            "name": self.name,
            "unit": self.unit,
            "promise": self.promise,
            "median": self.samples.quantile(0.5),
            "p10": self.samples.quantile(0.1),
            "p90": self.samples.quantile(0.9),
            "most": self.samples.quantile(1.0),
            "repetitions": self.samples.count(),
            "kept": self.is_kept(),
        })
    }
}

/// Where it is measured.
struct ClusterBench<'a> {
    args: &'a BenchArgs,
    engine: Engine,
    repetitions: usize,
    /// How many nodes are lost, and how many sessions moved.
    losses: usize,
    /// How long callers run cells.
    time: Duration,
}

impl ClusterBench<'_> {
    async fn nodes(&self, cluster: &str, count: usize) -> anyhow::Result<Vec<Arc<Server>>> {
        let mut nodes = Vec::new();
        for _ in 0..count {
            nodes.push(Arc::new(self.node(cluster).await?));
        }
        Ok(nodes)
    }

    async fn node(&self, cluster: &str) -> anyhow::Result<Server> {
        Server::node(&self.engine, cluster, &self.args.python).await
    }

    /// Sessions that are opened and cells that run each second, over one, two and three nodes.
    async fn throughput(&self) -> anyhow::Result<Vec<Measured>> {
        let part = Experiment::Throughput;
        let mut rows = Vec::new();
        let mut of_one = (f64::NAN, f64::NAN);
        for count in 1..=MAX_NODES {
            let nodes = self.nodes(&format!("throughput{count}"), count).await?;
            let opened = self.sessions_each_second(&nodes).await?;
            let ran = self.cells_each_second(&nodes).await?;
            let of = |what: &str| match count {
                1 => format!("{what}, one node"),
                count => format!("{what}, {count} nodes"),
            };
            let opened = Measured::new(part, &of("sessions opened"), "/s", opened);
            let ran = Measured::new(part, &of("cells"), "/s", ran);
            let medians = (opened.samples.quantile(0.5), ran.samples.quantile(0.5));
            rows.extend([opened, ran]);
            if count == 1 {
                of_one = medians;
                continue;
            }
            let ratio = |what: &str, value: f64| {
                let what = format!("{what}, {count} nodes beside one");
                Measured::new(part, &what, "×", vec![value])
            };
            rows.push(ratio("sessions opened", medians.0 / of_one.0));
            rows.push(ratio("cells", medians.1 / of_one.1));
        }
        Ok(rows)
    }

    /// Sessions that all callers together open in a second, round by round. Each node is asked by as many callers.
    async fn sessions_each_second(&self, nodes: &[Arc<Server>]) -> anyhow::Result<Vec<f64>> {
        let mut values = Vec::new();
        for _ in 0..self.losses {
            let begun = Instant::now();
            let sessions = opened(nodes).await?;
            values.push(CALLERS as f64 / begun.elapsed().as_secs_f64());
            closed(sessions).await?;
        }
        Ok(values)
    }

    /// Cells that all callers together run in a second, second by second.
    async fn cells_each_second(&self, nodes: &[Arc<Server>]) -> anyhow::Result<Vec<f64>> {
        let sessions = opened(nodes).await?;
        let begun = Instant::now();
        let time = self.time;
        let mut callers = JoinSet::new();
        for (node, session) in sessions.clone() {
            callers.spawn(async move {
                let mut ends = Vec::new();
                while begun.elapsed() < time {
                    node.run(&session, ADDED_CODE).await?;
                    ends.push(begun.elapsed());
                }
                anyhow::Ok(ends)
            });
        }
        let mut values = vec![0.0; usize::try_from(time.as_secs())?];
        while let Some(ends) = callers.join_next().await {
            for end in ends?? {
                let second = usize::try_from(end.as_secs())?;
                if let Some(value) = values.get_mut(second) {
                    *value += 1.0;
                }
            }
        }
        closed(sessions).await?;
        Ok(values)
    }

    /// Milliseconds of a cell, over HTTP, on a server that is alone, on the session's own node, and through another node.
    async fn latency(&self) -> anyhow::Result<Vec<Measured>> {
        let alone = Server::alone(&self.args.python).await?;
        let nodes = self.nodes("latency", 2).await?;
        let sessions = (alone.open().await?, nodes[0].open().await?);
        let owner = nodes[0].node_of(&sessions.1).await?;
        let (own, other) = match nodes[0].id == owner {
            true => (&nodes[0], &nodes[1]),
            false => (&nodes[1], &nodes[0]),
        };
        let ways: [(&Server, &str); 3] = [
            (&alone, &sessions.0),
            (own, &sessions.1),
            (other, &sessions.1),
        ];
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..self.repetitions {
            for ((server, session), times) in ways.iter().zip(&mut times) {
                tokio::time::sleep(GAP).await;
                let begun = Instant::now();
                server.run(session, ADDED_CODE).await?;
                times.push(milliseconds(begun.elapsed()));
            }
        }
        let added = |from: usize, to: usize| {
            let pairs = times[from].iter().zip(&times[to]);
            pairs.map(|(from, to)| to - from).collect::<Vec<f64>>()
        };
        let (by_cluster, by_other) = (added(0, 1), added(1, 2));
        let [alone, own, other] = times;
        let row = |what: &str, values| Measured::new(Experiment::Latency, what, "ms", values);
        Ok(vec![
            row("cell `x = 1` on a server alone", alone),
            row("the same on the session's own node", own),
            row("the same through another node", other),
            row("what the cluster adds on its own node", by_cluster),
            row("what another node adds", by_other).promised(1.5),
        ])
    }

    /// Milliseconds from the loss of a session's node to the answer of its next cell.
    async fn failover(&self) -> anyhow::Result<Vec<Measured>> {
        let mut nodes = self.nodes("failover", MAX_NODES).await?;
        let mut values = Vec::new();
        for _ in 0..self.losses {
            let session = used_session(&nodes[0]).await?;
            let owner = nodes[0].node_of(&session).await?;
            let place = nodes.iter().position(|node| node.id == owner);
            let lost = nodes.remove(place.context("the session is on no node")?);
            let lost = Arc::into_inner(lost).context("the node is in use")?;
            lost.kill().await?;
            let begun = Instant::now();
            nodes[0].run(&session, ADDED_CODE).await?;
            values.push(milliseconds(begun.elapsed()));
            nodes[0].close(&session).await?;
            nodes.push(Arc::new(self.node("failover").await?));
        }
        let what = "`kill -9` of the session's node to the answer of its next cell";
        Ok(vec![
            Measured::new(Experiment::Failover, what, "ms", values).promised(3_000.0),
        ])
    }

    /// Milliseconds in which a session does not answer while its node is drained: the longest of the cells that run back to back.
    async fn moves(&self) -> anyhow::Result<Vec<Measured>> {
        let nodes = self.nodes("moves", 2).await?;
        let (mut values, mut usual) = (Vec::new(), Vec::new());
        for _ in 0..self.losses {
            let session = used_session(&nodes[0]).await?;
            let owner = nodes[0].node_of(&session).await?;
            let through = nodes.iter().find(|node| node.id != owner);
            let through = through.context("there is no other node")?;
            let running = async {
                let mut longest = Duration::ZERO;
                let mut is_moved = false;
                while !is_moved {
                    // The place is looked at before the cell: the cell that comes after the move counts too.
                    is_moved = through.node_of(&session).await? != owner;
                    let begun = Instant::now();
                    through.run(&session, ADDED_CODE).await?;
                    let time = begun.elapsed();
                    usual.push(milliseconds(time));
                    longest = longest.max(time);
                }
                anyhow::Ok(longest)
            };
            let (longest, drained) = tokio::join!(running, through.set_state(&owner, "draining"));
            drained?;
            values.push(milliseconds(longest?));
            through.set_state(&owner, "ready").await?;
            through.close(&session).await?;
        }
        let row = |what: &str, values| Measured::new(Experiment::Moves, what, "ms", values);
        Ok(vec![
            row("the longest cell while its session is moved", values),
            row("all cells meanwhile", usual),
        ])
    }
}

/// A session with a few cells.
async fn used_session(node: &Server) -> anyhow::Result<String> {
    let session = node.open().await?;
    for _ in 0..CELLS_BEFORE {
        node.run(&session, ADDED_CODE).await?;
    }
    Ok(session)
}

/// A session for each caller, with its first cell, opened at the same time through all nodes in turn.
async fn opened(nodes: &[Arc<Server>]) -> anyhow::Result<Vec<(Arc<Server>, String)>> {
    let mut opening = JoinSet::new();
    for node in nodes.iter().cycle().take(CALLERS) {
        let node = Arc::clone(node);
        opening.spawn(async move {
            let session = node.open().await?;
            node.run(&session, ADDED_CODE).await?;
            anyhow::Ok((node, session))
        });
    }
    let mut sessions = Vec::new();
    while let Some(opened) = opening.join_next().await {
        sessions.push(opened??);
    }
    Ok(sessions)
}

async fn closed(sessions: Vec<(Arc<Server>, String)>) -> anyhow::Result<()> {
    for (node, session) in sessions {
        node.close(&session).await?;
    }
    Ok(())
}

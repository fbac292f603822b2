//! `cellblock nodes`: the servers of a cluster, listed, cordoned and drained.

use crate::args::EngineArgs;
use crate::failure::Usage;
use crate::process;
use crate::terminal::{Console, aligned, size};
use cellblock_cluster::engine::{Engine, NodeRecord, NodeState, NodeSummary};
use cellblock_cluster::set_node_state;
use clap::{Args, Subcommand};
use std::process::ExitCode;
use std::time::Duration;

/// How often a node that is drained is looked at, and how long it may be silent before it is taken for gone.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct NodesArgs {
    #[command(flatten)]
    engine: EngineArgs,
    #[command(subcommand)]
    command: Option<NodesCommand>,
    /// Print a JSON list instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum NodesCommand {
    /// Move all sessions of a node to others; it takes no new ones
    Drain(DrainArgs),
    /// Let a node keep its sessions and take no new ones
    Cordon(NodeArgs),
    /// Let a node take sessions again
    Uncordon(NodeArgs),
}

#[derive(Debug, Args)]
struct NodeArgs {
    /// The id of a node, or the name that it was started with
    node: String,
}

#[derive(Debug, Args)]
struct DrainArgs {
    #[command(flatten)]
    node: NodeArgs,
    /// Wait until the node has no session any more
    #[arg(long)]
    wait: bool,
}

const EXAMPLES: &str = "\
Examples:
  cellblock nodes --cluster nats://a,nats://b,nats://c
  cellblock nodes --cluster nats://a,nats://b,nats://c --json
  cellblock nodes --cluster nats://a,nats://b,nats://c drain n3 --wait";

/// Runs the subcommand; without one, lists the nodes.
pub(crate) fn run(args: &NodesArgs, console: &Console) -> anyhow::Result<ExitCode> {
    if !args.engine.is_chosen() {
        return Err(Usage::hinted(
            "no cluster is named".to_owned(),
            "give its servers: --cluster nats://HOST:PORT,…",
        ));
    }
    let runtime = process::runtime_on_threads(2)?;
    let outcome = runtime.block_on(ask(args, console));
    runtime.shutdown_background();
    outcome
}

async fn ask(args: &NodesArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let (engine, _) = args.engine.connect().await?;
    match &args.command {
        None => list(&engine, args.json, console).await?,
        Some(NodesCommand::Cordon(args)) => {
            set_state(&engine, &args.node, NodeState::Cordoned, console).await?;
        }
        Some(NodesCommand::Uncordon(args)) => {
            set_state(&engine, &args.node, NodeState::Ready, console).await?;
        }
        Some(NodesCommand::Drain(args)) => {
            let node = set_state(&engine, &args.node.node, NodeState::Draining, console).await?;
            if args.wait {
                wait_until_empty(&engine, &node).await?;
                console.say(&format!("{} has no sessions any more", node.node));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn nodes(engine: &Engine) -> anyhow::Result<Vec<NodeRecord>> {
    let listed = engine.members.list().await;
    listed.map_err(|error| Usage::plain(error.to_string()))
}

async fn list(engine: &Engine, as_json: bool, console: &Console) -> anyhow::Result<()> {
    let nodes = nodes(engine).await?;
    if as_json {
        let list: Vec<NodeSummary> = nodes.into_iter().map(NodeSummary::from).collect();
        console.print_json(&list)?;
        return Ok(());
    }
    if nodes.is_empty() {
        console.say("the cluster has no nodes");
        return Ok(());
    }
    let head = [
        "NODE", "STATE", "SESSIONS", "LOAD", "FREE", "WALLS", "ADDRESS",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(nodes.iter().map(|node| {
        [
            node.node.to_string(),
            state_text(node),
            format!("{}/{}", node.sessions, node.capacity),
            format!("{:.2}", node.load),
            size(node.free_memory),
            node.walls.clone(),
            node.address.clone(),
        ]
    }));
    for line in aligned(&rows) {
        console.print_guest(&line)?;
    }
    Ok(())
}

/// What a person reads about a node's state. A node whose heartbeats do not come is listed until its lease ends.
fn state_text(node: &NodeRecord) -> String {
    match node.is_silent() {
        true => format!("not heard for {} s", node.silent_ms.div_ceil(1000)),
        false => state_name(node.state).to_owned(),
    }
}

fn state_name(state: NodeState) -> &'static str {
    match state {
        NodeState::Ready => "ready",
        NodeState::Cordoned => "cordoned",
        NodeState::Draining => "draining",
    }
}

/// Tells a node what to do with sessions, and returns what the node was before.
async fn set_state(
    engine: &Engine,
    name: &str,
    state: NodeState,
    console: &Console,
) -> anyhow::Result<NodeRecord> {
    let mut found = nodes(engine).await?;
    found.retain(|node| {
        let id = node.node.as_str();
        id == name || id.rsplit_once('_').is_some_and(|(start, _)| start == name)
    });
    let node = match found.len() {
        1 => found.remove(0),
        0 => {
            return Err(Usage::hinted(
                format!("the cluster has no node `{name}`"),
                "`cellblock nodes` lists them",
            ));
        }
        many => {
            return Err(Usage::hinted(
                format!("{many} nodes have the name `{name}`"),
                "give the whole id of one, as `cellblock nodes` prints it",
            ));
        }
    };
    let told = set_node_state(engine, &node.node, state).await;
    told.map_err(|error| Usage::plain(error.to_string()))?;
    console.say(&format!("{} is {}", node.node, state_name(state)));
    Ok(node)
}

async fn wait_until_empty(engine: &Engine, node: &NodeRecord) -> anyhow::Result<()> {
    loop {
        let all = nodes(engine).await?;
        match all.iter().find(|other| other.node == node.node) {
            Some(node) if node.sessions > 0 => tokio::time::sleep(LOOK_INTERVAL).await,
            _ => return Ok(()),
        }
    }
}

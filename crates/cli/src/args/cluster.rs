//! The flags of a server that is one of several, and of commands that ask about all of them.

use crate::failure::Usage;
use crate::process;
use cellblock_cluster::engine::{Engine, NodeRecord};
use cellblock_cluster::nats::{NatsOptions, NatsTls, connect};
use cellblock_cluster::{Measure, Runtime, TokioRuntime};
use cellblock_server::{ClusterOptions, ServerError};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How many streams the journals of a cluster are spread over. It stays the same for the life of a cluster.
const SHARDS: u8 = 4;

/// How the engine of a cluster is reached.
#[derive(Clone, Debug, Args)]
pub(crate) struct EngineArgs {
    /// The servers of the cluster's engine: NATS 2.12 or newer with JetStream, as nats://HOST:PORT, separated by commas
    #[arg(long = "cluster", value_name = "URLS", value_delimiter = ',')]
    servers: Vec<String>,
    /// A file with the credentials for these servers: as `nsc` writes them, or one line with the seed of an nkey, USER:PASSWORD or a token
    #[arg(long = "cluster-credentials", value_name = "FILE")]
    credentials: Option<PathBuf>,
    /// Speak only TLS with these servers, and trust the authorities in this file, as PEM
    #[arg(long = "cluster-tls-ca", value_name = "FILE")]
    tls_authorities: Option<PathBuf>,
    /// The certificate that is shown to these servers, as PEM
    #[arg(
        long = "cluster-tls-cert",
        value_name = "FILE",
        requires = "cluster_key"
    )]
    tls_certificate: Option<PathBuf>,
    /// The private key of that certificate, as PEM
    #[arg(
        id = "cluster_key",
        long = "cluster-tls-key",
        value_name = "FILE",
        requires = "tls_certificate"
    )]
    tls_certificate_key: Option<PathBuf>,
    /// The name of the cluster, where several share the same servers
    #[arg(long, value_name = "NAME", default_value = "cellblock")]
    cluster_name: String,
    /// How long a node lives without a heartbeat, in seconds. It is fixed when the cluster is first used
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 15,
        hide = true,
        value_parser = clap::value_parser!(u64).range(2..=600)
    )]
    cluster_lease: u64,
}

impl EngineArgs {
    /// Whether a cluster is named.
    pub(crate) fn is_chosen(&self) -> bool {
        !self.servers.is_empty()
    }

    /// How the cluster is reached and laid out.
    pub(crate) fn nats_options(&self) -> NatsOptions {
        NatsOptions {
            servers: self.servers.clone(),
            credentials: self.credentials.clone(),
            tls: NatsTls {
                authorities: self.tls_authorities.clone(),
                certificate: self
                    .tls_certificate
                    .clone()
                    .zip(self.tls_certificate_key.clone()),
            },
            prefix: self.cluster_name.clone(),
            replicas: self.servers.len().clamp(1, 3),
            shards: SHARDS,
            lease: Duration::from_secs(self.cluster_lease),
        }
    }

    /// Connects to the servers.
    pub(crate) async fn connect(&self) -> anyhow::Result<(Engine, TokioRuntime)> {
        let clock = TokioRuntime::new();
        let options = self.nats_options();
        let runtime: Arc<dyn Runtime> = Arc::new(clock.clone());
        let connected = connect(&options, &runtime).await;
        let engine = connected.map_err(|error| {
            Usage::hinted(
                format!("--cluster {}: {error}", self.servers.join(",")),
                hint_of(&error.0),
            )
        })?;
        Ok((engine, clock))
    }
}

/// What to do when the servers cannot be used.
fn hint_of(problem: &str) -> &'static str {
    let problem = problem.to_ascii_lowercase();
    if problem.contains("authorization") || problem.contains("nkey") {
        return "the servers want other credentials: --cluster-credentials FILE names those of this cluster's account";
    }
    if ["tls", "certificate"]
        .iter()
        .any(|word| problem.contains(word))
    {
        return "--cluster-tls-ca FILE names the authority that the servers' certificates come from; docs/cluster-operations.md says how";
    }
    "start the servers first; docs/cluster.md says how"
}

/// How a server is one of several.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArgs {
    #[command(flatten)]
    engine: EngineArgs,
    /// The name of this node [default: the name of the machine]
    #[arg(long, value_name = "NAME", requires = "servers")]
    node_name: Option<String>,
    /// Where other nodes reach this one [default: http:// and the address of --listen]
    #[arg(long, value_name = "URL", requires = "servers")]
    node_url: Option<String>,
    /// The most sessions that this node takes
    #[arg(long, value_name = "N", default_value_t = 200, requires = "servers")]
    node_sessions: u32,
    /// The most runs of the queue that this node works on at a time
    #[arg(long, value_name = "N", default_value_t = 8, requires = "servers")]
    node_runs: u32,
    /// How many days closed sessions and ended runs are kept; then everything of them is deleted [default: for ever]
    #[arg(long, value_name = "DAYS", requires = "servers", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    keep_sessions: Option<u32>,
}

impl ClusterArgs {
    /// Whether a cluster is named.
    pub(crate) fn is_chosen(&self) -> bool {
        self.engine.is_chosen()
    }

    /// What the server needs to be one of several, if a cluster is named.
    pub(crate) async fn options(
        &self,
        address: SocketAddr,
    ) -> anyhow::Result<Option<ClusterOptions>> {
        if !self.is_chosen() {
            return Ok(None);
        }
        let (engine, clock) = self.engine.connect().await?;
        let name = self.node_name.clone().unwrap_or_else(machine_name);
        let url = match &self.node_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => format!("http://{address}"),
        };
        let refused = |error: ServerError| Usage::plain(error.to_string());
        let mut options = ClusterOptions::new(engine, clock, &name, url).map_err(refused)?;
        options.capacity = self.node_sessions;
        options.run_slots = self.node_runs;
        let days = |days| Duration::from_secs(u64::from(days) * 24 * 60 * 60);
        options.retention.closed = self.keep_sessions.map(days);
        options.heartbeat =
            Duration::from_secs(2).min(Duration::from_secs(self.engine.cluster_lease) / 4);
        let measure: Measure = Arc::new(measure_machine);
        options.measure = Some(measure);
        Ok(Some(options))
    }
}

/// The name of this machine, in the letters of a node's name.
fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let letters = name.trim().chars().take(32).map(|letter| match letter {
        letter if letter.is_ascii_alphanumeric() => letter,
        _ => '-',
    });
    letters.collect()
}

/// Notes the free memory and the load of this machine.
fn measure_machine(record: &mut NodeRecord) {
    record.free_memory = process::available_memory().unwrap_or(0);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load
        .split_whitespace()
        .next()
        .and_then(|load| load.parse::<f64>().ok());
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    record.load = load.unwrap_or(0.0) / processors as f64;
}

//! The engine of several machines: NATS with JetStream, three servers or more.
//!
//! Streams are made once, for all sessions: nothing on the servers grows with the number of sessions but records. All conditional writes
//! are the same thing, an append that names the last sequence of its subject (`Nats-Expected-Last-Subject-Sequence`).
//!
//! | part | stream (with the prefix `cb`) | subject | kept |
//! | --- | --- | --- | --- |
//! | directory | `cb_sessions` | `cb.s.SESSION` | file, the last message of each subject |
//! | members | `cb_nodes` | `cb.n.NODE` | memory, for the time of a lease |
//! | journals | `cb_journal_SHARD` | `cb.j.SHARD.SESSION` | file, all |
//! | runs | `cb_runs` | `cb.q.RUN` | file, the last message of each subject, until the run has ended |
//! | events | `cb_events` | `cb.e.SESSION` | memory, ten minutes |
//! | blobs | `cb_blobs` | `cb.b.DIGEST`, `cb.b.DIGEST.CHUNK` | file, the last message of each subject, until no record names the blob |
//! | router | none | `cb.r.NODE` | not kept |

mod access;
mod blobs;
mod directory;
mod events;
mod examine;
mod log;
mod router;
mod sessions;

pub use access::NatsTls;
pub use examine::{AppendReport, EngineReport, FileSync, StreamReport, StreamState, examine};

use crate::engine::{Engine, EngineError};
use crate::runtime::Runtime;
use async_nats::ServerAddr;
use async_nats::jetstream::stream::{Config, StorageType};
use log::Log;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long a request to a server may take before its outcome counts as unknown.
const SERVER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long events are kept, and how many of a session.
const EVENTS_AGE: Duration = Duration::from_secs(600);
const MAX_EVENTS: i64 = 10_000;

/// How a cluster is reached and laid out.
#[derive(Clone, Debug)]
pub struct NatsOptions {
    /// The addresses of the servers.
    pub servers: Vec<String>,
    /// A file with the credentials of this node: as `nsc` writes them, the seed of an nkey, `USER:PASSWORD` or a token.
    pub credentials: Option<PathBuf>,
    /// How the connections to the servers are encrypted.
    pub tls: NatsTls,
    /// What the names of all streams and subjects begin with: letters, digits, `-` or `_`.
    pub prefix: String,
    /// How many servers keep each message.
    pub replicas: usize,
    /// How many streams the journals are spread over. It must stay the same for the life of a cluster.
    pub shards: u8,
    /// How long a node lives without a heartbeat. 15 seconds or more: an election of servers takes up to nine.
    pub lease: Duration,
}

impl NatsOptions {
    /// Whether connections without TLS are refused.
    pub fn is_encrypted(&self) -> bool {
        let is_named = |server: &String| server.starts_with("tls://");
        self.tls.is_required() || self.servers.iter().all(is_named)
    }
}

/// Connects to a cluster, and makes its streams if they are not there.
pub async fn connect(
    options: &NatsOptions,
    runtime: &Arc<dyn Runtime>,
) -> Result<Engine, EngineError> {
    let reconnects = Arc::new(router::Reconnects::new(Arc::clone(runtime)));
    let client = client(options, &reconnects).await?;
    if !client.is_server_compatible(2, 12, 0) {
        let version = client.server_info().version;
        let message = format!("the NATS server has version {version}; 2.12 or newer is needed");
        return Err(EngineError(message));
    }
    let context = context_of(&client);
    let prefix = &options.prefix;
    let stream = |name: &str, subject: &str| Config {
        name: format!("{prefix}_{name}"),
        subjects: vec![format!("{prefix}.{subject}")],
        num_replicas: options.replicas,
        storage: StorageType::File,
        ..Config::default()
    };
    let log = async |config: Config| Log::open(&context, config).await;

    let sessions = log(Config {
        max_messages_per_subject: 1,
        allow_message_ttl: true,
        ..stream("sessions", "s.*")
    });
    let nodes = log(Config {
        max_messages_per_subject: 1,
        max_age: options.lease,
        storage: StorageType::Memory,
        ..stream("nodes", "n.*")
    });
    let runs = log(Config {
        max_messages_per_subject: 1,
        allow_message_ttl: true,
        ..stream("runs", "q.*")
    });
    let events = log(Config {
        max_age: EVENTS_AGE,
        max_messages_per_subject: MAX_EVENTS,
        storage: StorageType::Memory,
        num_replicas: 1,
        no_ack: true,
        ..stream("events", "e.*")
    });
    let blobs = log(Config {
        max_messages_per_subject: 1,
        ..stream("blobs", "b.>")
    });
    let mut shards = Vec::new();
    for number in 0..options.shards {
        let config = stream(&format!("journal_{number}"), &format!("j.{number}.*"));
        shards.push(log(config).await?);
    }
    Ok(Engine {
        directory: Arc::new(directory::NatsDirectory::new(
            sessions.await?,
            format!("{prefix}.s."),
        )),
        members: Arc::new(sessions::NatsMembers::new(
            nodes.await?,
            prefix,
            options.lease,
        )),
        journals: Arc::new(sessions::NatsJournals::new(shards, prefix)),
        router: Arc::new(router::NatsRouter::new(client.clone(), reconnects, prefix)),
        runs: Arc::new(directory::NatsDirectory::new(
            runs.await?,
            format!("{prefix}.q."),
        )),
        events: Arc::new(events::NatsEvents::new(client, events.await?, prefix)),
        blobs: Arc::new(blobs::NatsBlobs::new(blobs.await?, prefix)),
    })
}

fn context_of(client: &async_nats::Client) -> async_nats::jetstream::Context {
    async_nats::jetstream::context::ContextBuilder::new()
        .timeout(SERVER_TIMEOUT)
        .ack_timeout(SERVER_TIMEOUT)
        .build(client.clone())
}

async fn client(
    options: &NatsOptions,
    reconnects: &Arc<router::Reconnects>,
) -> Result<async_nats::Client, EngineError> {
    let mut servers = Vec::new();
    for server in &options.servers {
        servers.push(server.parse::<ServerAddr>().map_err(failed)?);
    }
    let connect = access::connect_options(options)?;
    let reconnects = Arc::clone(reconnects);
    connect
        .ping_interval(SERVER_TIMEOUT)
        .connection_timeout(SERVER_TIMEOUT)
        .event_callback(move |event| {
            reconnects.note(&event);
            async {}
        })
        .connect(servers)
        .await
        .map_err(failed)
}

/// The error of a server or of the client.
fn failed(error: impl std::fmt::Display) -> EngineError {
    EngineError(format!("NATS: {error}"))
}

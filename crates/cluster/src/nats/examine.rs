//! A look at the servers of a cluster, for a person who operates it. It changes nothing but a stream of its own, which it removes.

use super::log::Log;
use super::sessions::NatsMembers;
use super::{NatsOptions, SERVER_TIMEOUT, client, context_of, failed, router};
use crate::engine::{EngineError, Members as _, NodeRecord, Sequence};
use crate::runtime::Runtime;
use async_nats::jetstream::Context;
use async_nats::jetstream::stream::{Config, Info, StorageType};
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How many appends are timed.
const TIMED_APPENDS: usize = 20;
/// How long servers may take to say how they are configured.
const SETTINGS_TIMEOUT: Duration = Duration::from_secs(1);

/// What was found.
#[derive(Clone, Debug)]
pub struct EngineReport {
    /// The name of the server that answered.
    pub server: String,
    /// Its version.
    pub version: String,
    /// Whether the version is new enough.
    pub is_supported: bool,
    /// Whether the connection to it is encrypted.
    pub is_encrypted: bool,
    /// The streams of the cluster.
    pub streams: Vec<StreamReport>,
    /// The nodes whose lease has not lapsed.
    pub nodes: Result<Vec<NodeRecord>, String>,
    /// What an append costs.
    pub append: Result<AppendReport, String>,
    /// When each server syncs its files, by the name of the server. Empty if these credentials may not ask.
    pub syncs: Vec<(String, FileSync)>,
}

/// A stream, or why it cannot be used.
#[derive(Clone, Debug)]
pub struct StreamReport {
    /// Its name.
    pub name: String,
    /// How it is.
    pub state: StreamState,
}

/// How a stream is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamState {
    /// Its servers agree.
    Whole {
        /// How many servers keep it.
        replicas: usize,
        /// The server that leads it.
        leader: String,
        /// Its messages.
        messages: u64,
        /// Their length.
        bytes: u64,
    },
    /// It can be used, and some of its servers are away or behind.
    Behind {
        /// How many servers keep it.
        replicas: usize,
        /// The servers that are away or behind.
        servers: Vec<String>,
    },
    /// It does not exist: no node has used the cluster yet, or the cluster has another name.
    Missing,
    /// It cannot be used now: most of its servers are away.
    NoLeader(String),
}

/// What an append costs.
#[derive(Clone, Copy, Debug)]
pub struct AppendReport {
    /// The time of half of the appends.
    pub median: Duration,
    /// The longest time.
    pub longest: Duration,
    /// By how much the clock of the server is ahead of the clock here, in milliseconds.
    pub clock_ahead_ms: i64,
    /// How far the clocks may be from that, in milliseconds: half the time of an append.
    pub clock_doubt_ms: i64,
}

/// When a server syncs its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileSync {
    /// With every record, as a cluster needs it.
    Always,
    /// Every so often: what was answered is lost with the power.
    Interval(Duration),
}

/// Looks at the servers of a cluster. Fails if none of them can be reached.
pub async fn examine(
    options: &NatsOptions,
    runtime: &Arc<dyn Runtime>,
) -> Result<EngineReport, EngineError> {
    let reconnects = Arc::new(router::Reconnects::new(Arc::clone(runtime)));
    let client = client(options, &reconnects).await?;
    let context = context_of(&client);
    let info = client.server_info();
    let context_ref = &context;
    // At once: without a leader, each takes as long as a server may be silent.
    let streams = join_all(stream_names(options).into_iter().map(|name| async move {
        let state = stream_state(context_ref, &name).await;
        StreamReport { name, state }
    }));
    let streams = streams.await;
    Ok(EngineReport {
        is_supported: client.is_server_compatible(2, 12, 0),
        is_encrypted: info.tls_required || options.is_encrypted(),
        server: info.server_name,
        version: info.version,
        streams,
        nodes: nodes(options, &context)
            .await
            .map_err(|error| error.to_string()),
        append: time_appends(options, &context)
            .await
            .map_err(|error| error.to_string()),
        syncs: syncs(&client).await,
    })
}

fn stream_names(options: &NatsOptions) -> Vec<String> {
    let shards = (0..options.shards).map(|number| format!("journal_{number}"));
    let names = ["sessions", "nodes", "runs", "events", "blobs"].map(str::to_owned);
    let names = names.into_iter().chain(shards);
    names
        .map(|name| format!("{}_{name}", options.prefix))
        .collect()
}

async fn stream_state(context: &Context, name: &str) -> StreamState {
    match context.get_stream(name).await {
        Ok(stream) => state_of(stream.cached_info()),
        Err(error) if error.to_string().contains("not found") => StreamState::Missing,
        Err(error) => StreamState::NoLeader(error.to_string()),
    }
}

fn state_of(info: &Info) -> StreamState {
    let replicas = info.config.num_replicas;
    let (messages, bytes) = (info.state.messages, info.state.bytes);
    let Some(cluster) = &info.cluster else {
        // A server that is alone leads all its streams.
        let leader = String::new();
        return StreamState::Whole {
            replicas,
            leader,
            messages,
            bytes,
        };
    };
    let Some(leader) = cluster.leader.clone().filter(|leader| !leader.is_empty()) else {
        return StreamState::NoLeader("no server leads it".to_owned());
    };
    let behind = cluster
        .replicas
        .iter()
        .filter(|peer| peer.offline || !peer.current);
    let servers: Vec<String> = behind.map(|peer| peer.name.clone()).collect();
    match servers.is_empty() {
        true => StreamState::Whole {
            replicas,
            leader,
            messages,
            bytes,
        },
        false => StreamState::Behind { replicas, servers },
    }
}

async fn nodes(options: &NatsOptions, context: &Context) -> Result<Vec<NodeRecord>, EngineError> {
    let stream = context.get_stream(format!("{}_nodes", options.prefix));
    let log = Log {
        context: context.clone(),
        stream: stream.await.map_err(failed)?,
    };
    let members = NatsMembers::new(log, &options.prefix, options.lease);
    members.list().await
}

/// Times appends to a stream that is kept as journals are, and compares the clocks.
async fn time_appends(
    options: &NatsOptions,
    context: &Context,
) -> Result<AppendReport, EngineError> {
    let prefix = &options.prefix;
    let name = format!("{prefix}_doctor");
    let log = Log::open(
        context,
        Config {
            name: name.clone(),
            subjects: vec![format!("{prefix}.d")],
            num_replicas: options.replicas,
            storage: StorageType::File,
            max_messages_per_subject: 1,
            ..Config::default()
        },
    );
    let timed = time_appends_to(&log.await?, &format!("{prefix}.d")).await;
    let _ = context.delete_stream(&name).await;
    timed
}

async fn time_appends_to(log: &Log, subject: &str) -> Result<AppendReport, EngineError> {
    let mut times = Vec::new();
    // A look that was broken off left its messages behind.
    let last = log.last(subject).await?;
    let mut last = last.map_or(Sequence::START, |stored| stored.sequence);
    let mut middle_ms = 0;
    for _ in 0..TIMED_APPENDS {
        let begun = Instant::now();
        let appended = log.append(subject.to_owned(), last, "{}".into()).await;
        last = appended.map_err(failed)?;
        times.push(begun.elapsed());
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let middle = now.unwrap_or_default().saturating_sub(begun.elapsed() / 2);
        middle_ms = i64::try_from(middle.as_millis()).unwrap_or(0);
    }
    let doubt = times.last().copied().unwrap_or_default() / 2;
    let stored = log.stream.get_last_raw_message_by_subject(subject).await;
    let stored_ms = stored.map_err(failed)?.time.unix_timestamp_nanos() / 1_000_000;
    times.sort();
    Ok(AppendReport {
        median: times[times.len() / 2],
        longest: times[times.len() - 1],
        clock_ahead_ms: i64::try_from(stored_ms).unwrap_or(0) - middle_ms,
        clock_doubt_ms: i64::try_from(doubt.as_millis()).unwrap_or(0) + 1,
    })
}

/// Asks all servers for their settings. Only the account of the system may.
async fn syncs(client: &async_nats::Client) -> Vec<(String, FileSync)> {
    let inbox = client.new_inbox();
    let Ok(mut replies) = client.subscribe(inbox.clone()).await else {
        return Vec::new();
    };
    let asked = client.publish_with_reply("$SYS.REQ.SERVER.PING.VARZ", inbox, "".into());
    if asked.await.is_err() {
        return Vec::new();
    }
    let mut syncs = Vec::new();
    let deadline = tokio::time::sleep(SETTINGS_TIMEOUT.min(SERVER_TIMEOUT));
    tokio::pin!(deadline);
    loop {
        let message = tokio::select! {
            () = &mut deadline => break,
            message = replies.next() => message,
        };
        // Without the right, one answer without contents comes.
        let Some(reply) = message.filter(|message| !message.payload.is_empty()) else {
            break;
        };
        if let Ok(reply) = serde_json::from_slice::<Value>(&reply.payload) {
            syncs.extend(sync_of(&reply));
        }
    }
    syncs.sort_by(|(a, _), (b, _)| a.cmp(b));
    syncs
}

fn sync_of(reply: &Value) -> Option<(String, FileSync)> {
    let name = reply["server"]["name"].as_str()?.to_owned();
    let config = reply["data"]["jetstream"].get("config")?;
    let interval = config["sync_interval"].as_u64().unwrap_or(0);
    let sync = match config["sync_always"].as_bool().unwrap_or(false) {
        true => FileSync::Always,
        false => FileSync::Interval(Duration::from_nanos(interval)),
    };
    Some((name, sync))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_settings_of_a_server_say_when_it_syncs() {
        let reply = |config: Value| json!({"server": {"name": "s1"}, "data": {"jetstream": {"config": config}}});
        let always = sync_of(&reply(json!({"sync_always": true})));
        assert_eq!(always, Some(("s1".to_owned(), FileSync::Always)));
        let interval = sync_of(&reply(json!({"sync_interval": 120_000_000_000_u64})));
        let expected = FileSync::Interval(Duration::from_secs(120));
        assert_eq!(interval, Some(("s1".to_owned(), expected)));
        assert_eq!(
            sync_of(&json!({"server": {"name": "s1"}, "data": {}})),
            None
        );
    }
}

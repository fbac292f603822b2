//! `cellblock doctor --cluster`: how the servers of a cluster's engine are, and its nodes.

use super::print::{DoctorPage, Mark};
use crate::args::EngineArgs;
use crate::failure::Usage;
use crate::process;
use crate::terminal::{Console, milliseconds, plural, size};
use cellblock::duration_json::as_milliseconds;
use cellblock_cluster::engine::NodeRecord;
use cellblock_cluster::nats::{
    AppendReport, EngineReport, FileSync, NatsOptions, StreamState, examine,
};
use cellblock_cluster::{Runtime, TokioRuntime};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;

/// Clocks that differ by more than this make the times in records hard to compare. Nothing depends on them.
const MAX_CLOCK_DIFFERENCE_MS: i64 = 500;

/// One thing that was looked at.
struct Finding {
    mark: Mark,
    name: &'static str,
    text: String,
    hint: Option<&'static str>,
}

impl Finding {
    fn new(mark: Mark, name: &'static str, text: impl Into<String>) -> Finding {
        Finding {
            mark,
            name,
            text: text.into(),
            hint: None,
        }
    }

    fn hint(self, hint: &'static str) -> Finding {
        Finding {
            hint: Some(hint),
            ..self
        }
    }
}

/// Looks at the cluster and tells. It ends with 1 if something would lose or stop sessions.
pub(super) fn run(args: &EngineArgs, as_json: bool, console: &Console) -> anyhow::Result<ExitCode> {
    let runtime = process::runtime_on_threads(2)?;
    let clock: Arc<dyn Runtime> = Arc::new(TokioRuntime::new());
    let options = args.nats_options();
    let examined = runtime.block_on(examine(&options, &clock));
    runtime.shutdown_background();
    let report = examined.map_err(|error| {
        Usage::hinted(
            format!("no server of the cluster can be reached: {error}"),
            "sessions go on where they are, and their next cell waits; start the servers, most of them must run",
        )
    })?;
    let findings = findings(&report, &options);
    let is_good = findings.iter().all(|finding| finding.mark != Mark::Bad);
    if as_json {
        console.print_json(&to_json(&report, &findings, is_good))?;
    } else {
        print(&findings, console)?;
    }
    Ok(match is_good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn print(findings: &[Finding], console: &Console) -> std::io::Result<()> {
    let page = DoctorPage { console };
    page.heading("Cluster")?;
    for finding in findings {
        page.line(finding.mark, finding.name, &finding.text)?;
        if let Some(hint) = finding.hint {
            page.hint(hint)?;
        }
    }
    Ok(())
}

fn findings(report: &EngineReport, options: &NatsOptions) -> Vec<Finding> {
    let servers = options.servers.len();
    let version = format!("{} has version {}", report.server, report.version);
    let mut found = vec![match report.is_supported {
        true => Finding::new(Mark::Good, "engine", version),
        false => Finding::new(Mark::Bad, "engine", version)
            .hint("2.12 or newer is needed: older servers may accept a write that must be refused"),
    }];
    found.push(match servers {
        0..=2 => Finding::new(
            Mark::Fair,
            "servers",
            format!("{} named", plural(servers as u64, "server")),
        )
        .hint("name three: with fewer, one lost server stops all sessions"),
        _ => Finding::new(Mark::Good, "servers", format!("{servers} are named")),
    });
    found.extend(encryption(report, options));
    found.extend(streams(report, servers));
    found.push(syncs(&report.syncs));
    found.push(match &report.append {
        Ok(append) => {
            let text = format!(
                "half of the appends took at most {}, the longest {}",
                milliseconds(append.median),
                milliseconds(append.longest),
            );
            Finding::new(Mark::Good, "append", text)
        }
        Err(error) => Finding::new(Mark::Bad, "append", error.clone()).hint(QUORUM_HINT),
    });
    if let Ok(append) = &report.append {
        found.push(clock(append));
    }
    found.extend(nodes(&report.nodes));
    found
}

/// Whether others can read what nodes and servers say to each other. On one machine nobody can.
fn encryption(report: &EngineReport, options: &NatsOptions) -> Option<Finding> {
    let is_here = |server: &String| {
        let host = server.rsplit('@').next().unwrap_or(server);
        let host = host.split_once("://").map_or(host, |(_, host)| host);
        ["127.", "localhost", "[::1]"]
            .iter()
            .any(|here| host.starts_with(here))
    };
    match report.is_encrypted {
        true => Some(Finding::new(Mark::Good, "encryption", "TLS")),
        false if options.servers.iter().all(is_here) => None,
        false => Some(
            Finding::new(Mark::Fair, "encryption", "records travel unencrypted")
                .hint("give the servers a certificate, and the nodes --cluster-tls-ca"),
        ),
    }
}

const QUORUM_HINT: &str = "most servers of the engine must run: until they do, no cell ends and no session moves; nothing that was answered is lost";

fn streams(report: &EngineReport, servers: usize) -> Vec<Finding> {
    let mut found = Vec::new();
    let (mut whole, mut messages, mut bytes) = (0, 0, 0);
    let mut missing = Vec::new();
    for stream in &report.streams {
        let name = &stream.name;
        match &stream.state {
            StreamState::Whole {
                replicas,
                messages: count,
                bytes: length,
                ..
            } => {
                whole += 1;
                messages += count;
                bytes += length;
                let is_single = *replicas < servers.min(3) && !name.ends_with("_events");
                if is_single {
                    let text = format!("{name} is kept by {replicas} of {servers} servers");
                    found.push(Finding::new(Mark::Bad, "replicas", text).hint(
                        "the cluster was first used with fewer servers; raise num_replicas of its streams",
                    ));
                }
            }
            StreamState::Behind { servers, .. } => {
                let text = format!("{name}: away or behind: {}", servers.join(", "));
                found.push(Finding::new(Mark::Fair, "quorum", text));
            }
            StreamState::Missing => missing.push(name.as_str()),
            StreamState::NoLeader(error) => found.push(
                Finding::new(Mark::Bad, "quorum", format!("{name}: {error}")).hint(QUORUM_HINT),
            ),
        }
    }
    let text = format!(
        "{whole} of {} whole, with {messages} messages and {}",
        report.streams.len(),
        size(bytes)
    );
    if !missing.is_empty() {
        let text = format!("not there: {}", missing.join(", "));
        found.push(
            Finding::new(Mark::Fair, "streams", text)
                .hint("the first node makes them; a cluster of another name needs --cluster-name"),
        );
    }
    if whole > 0 {
        found.insert(0, Finding::new(Mark::Good, "streams", text));
    }
    found
}

fn syncs(syncs: &[(String, FileSync)]) -> Finding {
    if syncs.is_empty() {
        return Finding::new(Mark::Fair, "sync", "when servers sync their files cannot be seen with these credentials".to_owned())
            .hint("each server needs `sync_interval: always` in its part `jetstream`; its account of the system sees it");
    }
    let wrong = syncs.iter().find_map(|(name, sync)| match sync {
        FileSync::Always => None,
        FileSync::Interval(time) => Some(format!("{name} syncs every {} s", time.as_secs())),
    });
    match wrong {
        None => Finding::new(
            Mark::Good,
            "sync",
            "every server syncs each record".to_owned(),
        ),
        Some(text) => Finding::new(Mark::Bad, "sync", text).hint(
            "set `sync_interval: always`: else a loss of power loses cells that were answered",
        ),
    }
}

fn clock(append: &AppendReport) -> Finding {
    let (ahead, doubt) = (append.clock_ahead_ms, append.clock_doubt_ms);
    let text =
        format!("the server's is {ahead} ms ahead of this machine's, give or take {doubt} ms");
    match ahead.abs() - doubt > MAX_CLOCK_DIFFERENCE_MS {
        true => Finding::new(Mark::Fair, "clock", text)
            .hint("sessions are safe; times in records and lists are not comparable"),
        false => Finding::new(Mark::Good, "clock", text),
    }
}

fn nodes(nodes: &Result<Vec<NodeRecord>, String>) -> Vec<Finding> {
    let nodes = match nodes {
        Ok(nodes) => nodes,
        Err(_) => return vec![Finding::new(Mark::Fair, "nodes", "no node can be seen")],
    };
    let sessions: u32 = nodes.iter().map(|node| node.sessions).sum();
    let text = format!(
        "{} with {}",
        plural(nodes.len() as u64, "node"),
        plural(u64::from(sessions), "session")
    );
    let mut found = vec![match nodes.len() {
        0 => Finding::new(Mark::Fair, "nodes", "none serves".to_owned()),
        1 => Finding::new(Mark::Fair, "nodes", text)
            .hint("with a second node, sessions outlive the first"),
        _ => Finding::new(Mark::Good, "nodes", text),
    }];
    for node in nodes.iter().filter(|node| node.is_silent()) {
        let silent = node.silent_ms.div_ceil(1000);
        found.push(Finding::new(
            Mark::Fair,
            "node",
            format!("{} was not heard for {silent} s", node.node),
        ));
    }
    let mut versions: Vec<&str> = nodes.iter().map(|node| node.version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    if versions.len() > 1 {
        found.push(Finding::new(Mark::Fair, "versions", versions.join(", ")));
    }
    found
}

fn to_json(report: &EngineReport, findings: &[Finding], is_good: bool) -> Value {
    let findings = findings.iter().map(|finding| {
        let verdict = match finding.mark {
            Mark::Good => "good",
            Mark::Fair => "fair",
            Mark::Bad => "bad",
        };
        json!({"name": finding.name, "verdict": verdict, "text": finding.text, "hint": finding.hint})
    });
    json!({
        "ok": is_good,
        "engine": {"server": report.server, "version": report.version},
        "append_ms": report.append.as_ref().ok().map(|append| as_milliseconds(append.median)),
        "clock_ahead_ms": report.append.as_ref().ok().map(|append| append.clock_ahead_ms),
        "nodes": report.nodes.as_ref().ok().map(Vec::len),
        "findings": findings.collect::<Vec<_>>(),
    })
}

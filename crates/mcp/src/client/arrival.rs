//! Connecting to an MCP server: its start, the handshake, and the list of what it offers.

use super::program::Program;
use super::stdout_monitor::{MAX_LINE_BYTES, MonitoredReader, StdoutMonitor};
use super::{Offer, RemoteServer, Where, words};
use http::{HeaderName, HeaderValue};
use rmcp::model::{
    ClientCapabilities, ClientConfig, ErrorCode, Implementation, PaginatedRequestParams,
    ProtocolVersion, Tool,
};
use rmcp::service::{ClientInitializeError, RunningService, serve_client_with_lifecycle};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, Peer, RoleClient};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::time::timeout;

/// Tools that one server may bring.
const MAX_TOOLS: usize = 256;

type Running = RunningService<RoleClient, ClientConfig>;

/// A server that answers.
pub(super) struct Arrival {
    pub(super) running: Running,
    pub(super) program: Option<Program>,
    pub(super) monitor: Arc<StdoutMonitor>,
    pub(super) offer: Offer,
}

/// Starts or reaches a server and asks what it offers; in time, or not at all.
pub(super) async fn arrive(server: &RemoteServer) -> Result<Arrival, String> {
    match attempt(server, ClientLifecycleMode::Initialize).await {
        // Servers that only know later versions of the protocol have no greeting.
        Err(Failed {
            is_modern: true, ..
        }) => {
            let mode = ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::LATEST],
            };
            attempt(server, mode).await
        }
        other => other,
    }
    .map_err(|failed| failed.why)
}

struct Failed {
    why: String,
    is_modern: bool,
}

async fn attempt(server: &RemoteServer, mode: ClientLifecycleMode) -> Result<Arrival, Failed> {
    let plain = |why: String| Failed {
        why,
        is_modern: false,
    };
    let monitor = Arc::new(StdoutMonitor::default());
    let (program, greeting) = match &server.at {
        Where::Program {
            command,
            arguments,
            environment,
            directory,
        } => {
            let started = Program::start(command, arguments, environment, directory.as_deref());
            let (program, output, input) = started.map_err(plain)?;
            let output = MonitoredReader::new(output, Arc::clone(&monitor));
            let transport =
                AsyncRwTransport::new_client(output, input).with_max_line_length(MAX_LINE_BYTES);
            let greeting = timeout(
                server.start_limit,
                serve_client_with_lifecycle(identity(), transport, mode),
            );
            (Some(program), greeting.await)
        }
        Where::Address { .. } => {
            // The one that is quickest to build. Where the program has chosen another, that one stays.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let transport =
                StreamableHttpClientTransport::from_config(address(server).map_err(plain)?);
            let greeting = timeout(
                server.start_limit,
                serve_client_with_lifecycle(identity(), transport, mode),
            );
            (None, greeting.await)
        }
    };
    let greeted = match greeting {
        Ok(Ok(running)) => match timeout(server.start_limit, offer(&running, server)).await {
            Ok(Ok(offer)) => Ok((running, offer)),
            Ok(Err(why)) => Err(plain(why)),
            Err(_) => Err(plain(too_slow(server))),
        },
        Ok(Err(error)) => Err(Failed {
            is_modern: is_modern(&error),
            why: words::no_greeting(&error),
        }),
        Err(_) => Err(plain(too_slow(server))),
    };
    match greeted {
        Ok((running, offer)) => Ok(Arrival {
            running,
            program,
            monitor,
            offer,
        }),
        Err(mut failed) => {
            if let Some(stray) = monitor.stray() {
                failed.why.push_str(&format!(
                    "; on its standard output, where only messages of the protocol belong, it wrote: {stray}"
                ));
            }
            if let Some(program) = program {
                failed.why = format!("{}; {}", failed.why, program.end().await);
            }
            Err(failed)
        }
    }
}

fn too_slow(server: &RemoteServer) -> String {
    format!(
        "it did not say what it offers within {} s",
        server.start_limit.as_secs_f64()
    )
}

fn is_modern(error: &ClientInitializeError) -> bool {
    matches!(
        error,
        ClientInitializeError::JsonRpcError(error)
            if [ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, ErrorCode::METHOD_NOT_FOUND].contains(&error.code)
    )
}

fn identity() -> ClientConfig {
    let version = env!("CARGO_PKG_VERSION");
    ClientConfig::new(
        ClientCapabilities::default(),
        Implementation::new("cellblock", version),
    )
    .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
}

fn address(server: &RemoteServer) -> Result<StreamableHttpClientTransportConfig, String> {
    let Where::Address {
        url,
        token,
        headers,
    } = &server.at
    else {
        return Err("it has no address".to_owned());
    };
    let mut given = HashMap::new();
    for (name, value) in headers {
        let bad = |what: &str| format!("the header {name:?} cannot be sent: {what}");
        let key = HeaderName::try_from(name).map_err(|_| bad("this is no name of a header"))?;
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| bad("its value has characters that no header may have"))?;
        value.set_sensitive(true);
        given.insert(key, value);
    }
    let mut config =
        StreamableHttpClientTransportConfig::with_uri(url.as_str()).custom_headers(given);
    config.max_sse_event_size = MAX_LINE_BYTES;
    if let Some(token) = token {
        config = config.auth_header(token);
    }
    Ok(config)
}

async fn offer(running: &Running, server: &RemoteServer) -> Result<Offer, String> {
    let peer: &Peer<RoleClient> = running.peer();
    let info = peer.peer_info();
    let capabilities = info.as_ref().map(|info| &info.capabilities);
    let has_tools = capabilities.is_none_or(|all| all.tools.is_some());
    let has_resources = capabilities.is_some_and(|all| all.resources.is_some());
    let (tools, mut complaint) = match has_tools {
        true => tools(peer, server).await?,
        false => (Vec::new(), None),
    };
    let is_missing = |name: &&String| !tools.iter().any(|tool| tool.name == **name);
    if let Some(name) = server.only.iter().find(is_missing) {
        complaint = Some(format!("it has no tool `{name}`"));
    }
    Ok(Offer {
        tools,
        has_resources,
        complaint,
    })
}

/// The tools that are wanted, and whether there were too many.
async fn tools(
    peer: &Peer<RoleClient>,
    server: &RemoteServer,
) -> Result<(Vec<Tool>, Option<String>), String> {
    let is_wanted =
        |tool: &Tool| server.only.is_empty() || server.only.iter().any(|name| *name == tool.name);
    let mut tools = Vec::new();
    let mut cursor = None;
    loop {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let listed = peer.list_tools(Some(page)).await.map_err(|error| {
            words::no_answer(error)
                .unwrap_or_else(|| "it went away before it told its tools".to_owned())
        })?;
        tools.extend(listed.tools.into_iter().filter(is_wanted));
        if tools.len() > MAX_TOOLS {
            tools.truncate(MAX_TOOLS);
            let complaint = format!("it has more than {MAX_TOOLS} tools; the rest is left out");
            return Ok((tools, Some(complaint)));
        }
        cursor = listed.next_cursor;
        if cursor.is_none() {
            return Ok((tools, None));
        }
    }
}

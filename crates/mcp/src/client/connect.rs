//! Connecting to an MCP server: its start, the handshake, and the list of what it offers.

use super::http_client::BoundedHttpClient;
use super::message_budget::{BudgetedTransport, MessageBudget};
use super::program::{MonitoredReader, MonitoredWriter, Program, StdoutMonitor};
use super::{Offer, RemoteServer, ServerTransport};
use crate::message_size::MAX_MESSAGE_BYTES;
use http::{HeaderName, HeaderValue};
use rmcp::model::{
    ClientCapabilities, ClientConfig, ErrorCode, Implementation, PaginatedRequestParams,
    ProtocolVersion, Tool,
};
use rmcp::service::{ClientInitializeError, RunningService, serve_client_with_lifecycle};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, Peer, RoleClient, ServiceError};
use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use tokio::time::timeout;
use tokio_util::sync::DropGuard;

/// The most tools of one server, and the most bytes that their descriptions take together.
const MAX_TOOLS: usize = 256;
const MAX_TOOLS_BYTES: usize = 4 << 20;
/// The most pages of a list of a server.
pub(super) const MAX_PAGES: usize = 100;

type Running = RunningService<RoleClient, ClientConfig>;

/// A server that is connected and has listed its tools.
pub(super) struct StartedServer {
    pub(super) running: Running,
    pub(super) program: Option<Program>,
    pub(super) monitor: Arc<StdoutMonitor>,
    pub(super) budget: Arc<MessageBudget>,
    /// Ends the connection when it is dropped.
    pub(super) connected: DropGuard,
    pub(super) offer: Offer,
}

/// Connects to a server, and asks for its tools. Both must end within its time limit.
pub(super) async fn start_server(server: &RemoteServer) -> Result<StartedServer, String> {
    match attempt(server, ClientLifecycleMode::Initialize).await {
        // Servers that only know later versions of the protocol have no `initialize`.
        Err(StartError {
            needs_discovery: true,
            ..
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

struct StartError {
    why: String,
    needs_discovery: bool,
}

async fn attempt(
    server: &RemoteServer,
    mode: ClientLifecycleMode,
) -> Result<StartedServer, StartError> {
    let plain = |why: String| StartError {
        why,
        needs_discovery: false,
    };
    let monitor = Arc::new(StdoutMonitor::default());
    let budget = MessageBudget::new(server.message_limit);
    let connected = budget.end_on_drop();
    let (program, handshake) = match &server.transport {
        ServerTransport::Program {
            command,
            arguments,
            environment,
            directory,
        } => {
            let started = Program::start(command, arguments, environment, directory.as_deref());
            let (program, output, input) = started.map_err(plain)?;
            let output = MonitoredReader::new(output, Arc::clone(&monitor), Arc::clone(&budget));
            let input = MonitoredWriter::new(input, Arc::clone(&budget), server.unread_limit);
            let transport =
                AsyncRwTransport::new_client(output, input).with_max_line_length(MAX_MESSAGE_BYTES);
            let transport = BudgetedTransport::new(transport, Arc::clone(&budget));
            let handshake = timeout(
                server.start_limit,
                serve_client_with_lifecycle(identity(), transport, mode),
            );
            let handshake = tokio::select! {
                biased;
                problem = monitor.left_out() => Err(problem),
                handshake = handshake => Ok(handshake),
            };
            match handshake {
                Ok(handshake) => (Some(program), handshake),
                Err(problem) => {
                    drop(connected);
                    return Err(plain(format!("{problem}; {}", program.end().await)));
                }
            }
        }
        ServerTransport::Address { .. } => {
            // `ring` builds quickest. A provider that the program has chosen before stays.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let client = BoundedHttpClient::new(Arc::clone(&budget)).map_err(plain)?;
            let config = address(server).map_err(plain)?;
            let transport = StreamableHttpClientTransport::with_client(client, config);
            let transport = BudgetedTransport::new(transport, Arc::clone(&budget));
            let handshake = timeout(
                server.start_limit,
                serve_client_with_lifecycle(identity(), transport, mode),
            );
            (None, handshake.await)
        }
    };
    let listed = match handshake {
        Ok(Ok(running)) => {
            let offered = tokio::select! {
                biased;
                problem = monitor.left_out() => Ok(Err(problem.to_string())),
                offered = timeout(server.start_limit, offer(&running, server)) => offered,
            };
            match offered {
                Ok(Ok(offer)) => Ok((running, offer)),
                Ok(Err(why)) => Err(plain(why)),
                Err(_) => Err(plain(too_slow(server))),
            }
        }
        Ok(Err(error)) => Err(StartError {
            needs_discovery: needs_discovery(&error),
            why: handshake_error(&error),
        }),
        Err(_) => Err(plain(too_slow(server))),
    };
    match listed {
        Ok((running, offer)) => Ok(StartedServer {
            running,
            program,
            monitor,
            budget,
            connected,
            offer,
        }),
        Err(mut failed) => {
            drop(connected);
            if let Some(reason) = budget.reason() {
                failed = plain(reason.to_owned());
            }
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

fn needs_discovery(error: &ClientInitializeError) -> bool {
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
    let ServerTransport::Address {
        url,
        token,
        headers,
    } = &server.transport
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
    let (tools, mut warning) = match has_tools {
        true => tools(peer, server).await?,
        false => (Vec::new(), None),
    };
    let is_missing = |name: &&String| !tools.iter().any(|tool| tool.name == **name);
    if let Some(name) = server.only.iter().find(is_missing) {
        warning = Some(format!("it has no tool `{name}`"));
    }
    Ok(Offer {
        tools,
        has_resources,
        warning,
    })
}

/// The tools that the configuration asks for, and a warning if the list is too long.
async fn tools(
    peer: &Peer<RoleClient>,
    server: &RemoteServer,
) -> Result<(Vec<Tool>, Option<String>), String> {
    let is_wanted =
        |tool: &Tool| server.only.is_empty() || server.only.iter().any(|name| *name == tool.name);
    let (mut tools, mut bytes) = (Vec::new(), 0);
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let listed = peer.list_tools(Some(page)).await.map_err(|error| {
            request_error(error)
                .unwrap_or_else(|| "it went away before it told its tools".to_owned())
        })?;
        for tool in listed.tools.into_iter().filter(is_wanted) {
            let size = serde_json::to_vec(&tool).map_or(MAX_TOOLS_BYTES, |text| text.len());
            bytes += size;
            let warning = if tools.len() >= MAX_TOOLS {
                format!("it has more than {MAX_TOOLS} tools; the rest is left out")
            } else if bytes > MAX_TOOLS_BYTES {
                let most = MAX_TOOLS_BYTES >> 20;
                format!("its tools take more than {most} MiB; the rest is left out")
            } else {
                tools.push(tool);
                continue;
            };
            return Ok((tools, Some(warning)));
        }
        cursor = listed.next_cursor;
        if cursor.is_none() {
            return Ok((tools, None));
        }
    }
    let warning =
        format!("its list of tools has more than {MAX_PAGES} pages; the rest is left out");
    Ok((tools, Some(warning)))
}

/// The most characters of a message of a server.
const MAX_MESSAGE_CHARS: usize = 500;

/// Why the handshake with a server failed, in words.
pub(super) fn handshake_error(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => {
            "it went away before it said what it offers".to_owned()
        }
        ClientInitializeError::JsonRpcError(error) => {
            format!("it refuses to begin: {}", shorten(&error.message))
        }
        ClientInitializeError::ExpectedInitResponse(_)
        | ClientInitializeError::ExpectedInitResult(_)
        | ClientInitializeError::ConflictInitResponseId(..)
        | ClientInitializeError::UncorrelatedErrorResponse { .. } => {
            "it answers, but not in the Model Context Protocol".to_owned()
        }
        error if error.is_authorization_required() => {
            "it wants other credentials: set `token`, `token_env` or `headers`".to_owned()
        }
        ClientInitializeError::TransportError { error, .. } => {
            format!("it cannot be reached: {}", chain(error.error.as_ref()))
        }
        other => shorten(&other.to_string()),
    }
}

/// Why a request has no answer, in words. `None` if the server is gone: then the state of the connection has the reason.
pub(super) fn request_error(error: ServiceError) -> Option<String> {
    match error {
        ServiceError::TransportClosed => None,
        ServiceError::McpError(error) => Some(format!("it refuses: {}", shorten(&error.message))),
        ServiceError::UnexpectedResponse => {
            Some("it answered with something that is no result of a call".to_owned())
        }
        ServiceError::TransportSend(error) => Some(format!(
            "it cannot be reached: {}",
            chain(error.error.as_ref())
        )),
        other => Some(shorten(&other.to_string())),
    }
}

/// An error with its causes.
fn chain(error: &(dyn Error + Send + Sync)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    shorten(&text)
}

/// Shortens a text, and removes control characters, which could move the cursor of a terminal.
pub(super) fn shorten(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut shortened: String = clean.take(MAX_MESSAGE_CHARS).collect();
    if text.chars().nth(MAX_MESSAGE_CHARS).is_some() {
        shortened.push('…');
    }
    shortened
}

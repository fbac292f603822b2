//! The requests of one client: the list of tools, calls, and resources.

use super::call_output::{ProgressReporter, call_outcome};
use super::client_sessions::{ClientSessions, SESSION, takes_session};
use super::quota::ClientUser;
use super::{INSTRUCTIONS, Server, resources};
use cellblock_tools::{Call, Caller, Effects, ToolDefinition, ToolRunner, Uses};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, ErrorCode, Implementation, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::runtime::Handle;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Answers the requests of one client, and owns the sessions of that client.
pub(super) struct ClientHandler {
    sessions: ClientSessions,
    server: Server,
    versions: &'static [ProtocolVersion],
    /// Held until the last call of the client has ended: a server that closes waits for it.
    _presence: TaskTrackerToken,
}

impl ClientHandler {
    pub(super) fn new(main: ToolRunner, server: Server) -> ClientHandler {
        ClientHandler {
            sessions: ClientSessions::new(main),
            _presence: server.inner.closing.token(),
            server,
            versions: ProtocolVersion::KNOWN_VERSIONS,
        }
    }

    /// Makes the client that of a user. Its sessions and calls count against the limits of the user, not among all clients.
    pub(super) fn of_user(mut self, user: ClientUser) -> ClientHandler {
        self.sessions.set_user(user);
        self
    }

    /// Offers only versions of the protocol that have sessions. In later versions every HTTP request stands alone, and the server could
    /// not tell which session it is for.
    pub(super) fn with_sessions(mut self) -> ClientHandler {
        self.versions = ProtocolVersion::known_up_to(&ProtocolVersion::LATEST_WITH_INITIALIZE);
        self
    }

    /// Waits for the outcome of a request, and drops it when the client cancels the request or the server stops. The client does not read
    /// the error.
    async fn until_cancelled<T>(
        &self,
        context: &RequestContext<RoleServer>,
        answering: impl Future<Output = T>,
    ) -> Result<T, ErrorData> {
        tokio::select! {
            outcome = answering => Ok(outcome),
            () = context.ct.cancelled() => {
                Err(ErrorData::internal_error("the request was cancelled", None))
            }
            () = self.server.inner.stop.cancelled() => {
                Err(ErrorData::internal_error("the server is stopping", None))
            }
        }
    }
}

impl ServerHandler for ClientHandler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_list_changed()
            .build();
        let version = env!("CARGO_PKG_VERSION");
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("cellblock", version).with_title("Cellblock"))
            .with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(self.versions)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let registry = self.sessions.main().registry();
        let tools = registry.definitions().map(listed_tool).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut arguments = request.arguments.unwrap_or_default();
        let (session_name, runner) = match self.sessions.for_call(&request.name, &mut arguments) {
            Ok(found) => found,
            Err(problem) => return Ok(refused(&problem)),
        };
        let uses_interpreter = runner
            .registry()
            .get(&request.name)
            .is_some_and(|tool| tool.uses == Uses::Interpreter);
        let _counted = match self.sessions.user().filter(|_| uses_interpreter) {
            Some(user) => match self.until_cancelled(&context, user.begin_call()).await? {
                Ok(counted) => Some(counted),
                Err(problem) => return Ok(refused(&problem)),
            },
            None => None,
        };
        let call = Call {
            id: context.id.to_string(),
            name: request.name.into_owned(),
            arguments: arguments.into(),
            caller: Caller::Mcp,
        };
        let progress = ProgressReporter::of(&context);
        let event_handler = progress.as_ref().map(ProgressReporter::event_handler);
        // A call that is dropped interrupts its cell.
        let answering = runner.call_with_events(call, event_handler);
        let answer = self.until_cancelled(&context, answering).await?;
        if let Some(progress) = progress {
            progress.finish().await;
        }
        let mut result = call_outcome(answer, runner.locale(), &session_name, &context);
        let structured = result.result.structured_content.as_ref();
        if let Some(advice) = structured.and_then(self.server.advice) {
            result.result.content.push(ContentBlock::text(advice));
        }
        if result.changed_files {
            // The client may have disconnected.
            let peer = context.peer.clone();
            tokio::spawn(async move {
                let _ = peer.notify_resource_list_changed().await;
            });
        }
        Ok(result.result.into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let listing = resources::list(&self.sessions, self.server.inner.files, cursor);
        self.until_cancelled(&context, listing).await?
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let reading = resources::read(&self.sessions, &request.uri);
        let read = self.until_cancelled(&context, reading).await?;
        read.map(Into::into)
    }

    /// Answers requests with an unknown method, and known methods whose parameters do not fit.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let (code, message) = match request.method.as_str() {
            "tools/call" => (
                ErrorCode::INVALID_PARAMS,
                "the parameters of tools/call do not fit: `name` must be a text and `arguments` an object"
                    .to_owned(),
            ),
            "resources/read" => (
                ErrorCode::INVALID_PARAMS,
                "the parameters of resources/read do not fit: `uri` must be a text".to_owned(),
            ),
            other => (
                ErrorCode::METHOD_NOT_FOUND,
                format!("there is no method {:?} here", other.chars().take(64).collect::<String>()),
            ),
        };
        Err(ErrorData::new(code, message, None))
    }
}

impl Drop for ClientHandler {
    fn drop(&mut self) {
        if self.sessions.user().is_none() {
            self.server.inner.clients.fetch_sub(1, Ordering::SeqCst);
        }
        let sessions = self.sessions.clone();
        // Without a runtime the whole process is ending, and the sessions with it.
        if let Ok(runtime) = Handle::try_current() {
            self.server
                .inner
                .closing
                .spawn_on(async move { sessions.close().await }, &runtime);
        }
    }
}

/// The result of a call that is not made.
fn refused(problem: &str) -> CallToolResponse {
    let content = vec![ContentBlock::text(format!("Tool call failed: {problem}"))];
    CallToolResult::error(content).into()
}

/// A tool for `tools/list`: without the parameter `purpose`, with the parameter `session`.
pub(super) fn listed_tool(definition: &ToolDefinition) -> Tool {
    let mut tool = Tool::new(
        definition.name.clone(),
        definition.description.clone(),
        Arc::new(parameters(definition)),
    );
    tool.output_schema = match &definition.result {
        // The protocol knows no other results.
        Some(Value::Object(schema)) if schema.get("type") == Some(&json!("object")) => {
            Some(Arc::new(schema.clone()))
        }
        _ => None,
    };
    let outside = definition.effects == Effects::Outside;
    tool.annotations = Some(ToolAnnotations::from_raw(
        None,
        None,
        Some(outside),
        None,
        Some(outside),
    ));
    tool
}

fn parameters(definition: &ToolDefinition) -> Map<String, Value> {
    let mut schema = definition.parameters.clone();
    if takes_session(&definition.name, definition.uses)
        && let Some(Value::Object(properties)) = schema.get_mut("properties")
    {
        properties.entry(SESSION).or_insert_with(|| {
            json!({
                "type": "string",
                "default": "main",
                "description": "The session it is for: main, or the name of a fork.",
            })
        });
    }
    schema
}

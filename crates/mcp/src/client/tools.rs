//! The tools and resources of another server, as tools of a registry.

use super::connection::ServerConnection;
use super::{Trust, connect};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_tools::{
    Context, DynamicTool, Effects, Output, Part, ToolDefinition, ToolError, ToolFuture,
};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ContentBlock, PaginatedRequestParams,
    ReadResourceRequestParams, ResourceContents, Tool,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The most characters of a description, which is in every request to a model.
const MAX_DESCRIPTION_CHARS: usize = 4_000;
/// The most characters of a name that models and Python accept.
const MAX_NAME_CHARS: usize = 64;

struct RemoteTool {
    definition: ToolDefinition,
    /// Its name on the server.
    remote_name: String,
    connection: Arc<ServerConnection>,
}

/// The tools of a server, as tools of a registry.
pub(super) fn remote_tools(
    connection: &Arc<ServerConnection>,
    tools: Vec<Tool>,
) -> Vec<Arc<dyn DynamicTool>> {
    let made = tools.into_iter().map(|tool| {
        let tool: Arc<dyn DynamicTool> = Arc::new(RemoteTool {
            definition: definition(connection, &tool),
            remote_name: tool.name.into_owned(),
            connection: Arc::clone(connection),
        });
        tool
    });
    made.collect()
}

/// `search` of the server `web` is `web_search`.
pub(super) fn local_name(server: &str, remote_name: &str) -> String {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let whole = format!("{server}_{remote_name}");
    let clean = whole.chars().map(|c| if good(c) { c } else { '_' });
    clean.take(MAX_NAME_CHARS).collect()
}

fn definition(connection: &ServerConnection, tool: &Tool) -> ToolDefinition {
    let mut parameters: Map<String, Value> = tool.input_schema.as_ref().clone();
    parameters.insert("type".to_owned(), json!("object"));
    parameters.entry("properties").or_insert_with(|| json!({}));
    let description = tool.description.as_deref().unwrap_or_default();
    let mut definition = ToolDefinition::new(
        local_name(connection.name(), &tool.name),
        description
            .chars()
            .take(MAX_DESCRIPTION_CHARS)
            .collect::<String>(),
        parameters,
    );
    definition.result = tool
        .output_schema
        .as_ref()
        .map(|schema| Value::Object(schema.as_ref().clone()));
    definition.time_limit = Some(connection.server().call_limit);
    let hints = tool.annotations.as_ref();
    let is_read_only = hints.and_then(|hints| hints.read_only_hint) == Some(true);
    definition.effects = match connection.server().trust {
        Trust::Everything => Effects::None,
        Trust::Hints if is_read_only => Effects::None,
        Trust::Hints | Trust::Nothing => Effects::Outside,
    };
    definition
}

impl DynamicTool for RemoteTool {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn invoke(self: Arc<Self>, arguments: Map<String, Value>, _: Context) -> ToolFuture {
        Box::pin(async move {
            let request =
                CallToolRequestParams::new(self.remote_name.clone()).with_arguments(arguments);
            let result = self
                .connection
                .ask(|peer| async move { peer.call_tool(request).await })
                .await?;
            let failed = result.is_error == Some(true);
            output_of(result).map_err(|message| match failed {
                true => cellblock_tools::ToolError::new(message),
                false => self.connection.problem(&connect::shorten(&message)),
            })
        })
    }
}

/// The most resources in an answer, and the most bytes that they take together.
const MAX_LISTED: usize = 500;
const MAX_LISTED_BYTES: usize = 4 << 20;

enum ResourceAction {
    List,
    Read,
}

struct ResourceTool {
    definition: ToolDefinition,
    action: ResourceAction,
    connection: Arc<ServerConnection>,
}

/// `web_list_resources` and `web_read_resource` for the server `web`.
pub(super) fn resource_tools(connection: &Arc<ServerConnection>) -> Vec<Arc<dyn DynamicTool>> {
    let server = connection.name();
    let make = |name: &str, description: String, parameters: Value, action: ResourceAction| {
        let parameters = match parameters {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        let mut definition = ToolDefinition::new(local_name(server, name), description, parameters);
        definition.time_limit = Some(connection.server().call_limit);
        let tool: Arc<dyn DynamicTool> = Arc::new(ResourceTool {
            definition,
            action,
            connection: Arc::clone(connection),
        });
        tool
    };
    let list = make(
        "list_resources",
        format!("Lists the documents that the server {server} offers, with their addresses."),
        json!({"type": "object", "properties": {}, "additionalProperties": false}),
        ResourceAction::List,
    );
    let read = make(
        "read_resource",
        format!("Reads a document of the server {server} by its address."),
        json!({
            "type": "object",
            "properties": {"uri": {"type": "string", "description": "The address, from the list or from a result."}},
            "required": ["uri"],
            "additionalProperties": false,
        }),
        ResourceAction::Read,
    );
    vec![list, read]
}

impl DynamicTool for ResourceTool {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn invoke(self: Arc<Self>, mut arguments: Map<String, Value>, _: Context) -> ToolFuture {
        Box::pin(async move {
            match self.action {
                ResourceAction::List => list(&self.connection).await,
                ResourceAction::Read => {
                    let uri = match arguments.remove("uri") {
                        Some(Value::String(uri)) => uri,
                        _ => return Err(ToolError::new("field `uri`: expected a text")),
                    };
                    read(&self.connection, uri).await
                }
            }
        })
    }
}

async fn list(connection: &ServerConnection) -> Result<Output, ToolError> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    let mut cursor = None;
    for _ in 0..connect::MAX_PAGES {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let listed = connection
            .ask(|peer| async move { peer.list_resources(Some(page)).await })
            .await?;
        for resource in listed.resources {
            let about = resource.description.or(resource.title);
            let texts = [
                Some(&resource.uri),
                Some(&resource.name),
                resource.mime_type.as_ref(),
                about.as_ref(),
            ];
            bytes += texts.into_iter().flatten().map(String::len).sum::<usize>();
            if found.len() >= MAX_LISTED || bytes > MAX_LISTED_BYTES {
                return Ok(Output::json(found));
            }
            found.push(json!({"uri": resource.uri, "name": resource.name, "mime": resource.mime_type, "description": about}));
        }
        cursor = listed.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    Ok(Output::json(found))
}

async fn read(connection: &ServerConnection, uri: String) -> Result<Output, ToolError> {
    let request = ReadResourceRequestParams::new(uri);
    let read = connection
        .ask(|peer| async move { peer.read_resource(request).await })
        .await?;
    let parts: Result<Vec<Part>, String> =
        read.contents.into_iter().map(part_of_resource).collect();
    Ok(Output {
        structured: None,
        parts: parts.map_err(|why| connection.problem(&why))?,
    })
}

/// The result of a call, or the message of the tool that failed.
pub(super) fn output_of(result: CallToolResult) -> Result<Output, String> {
    let mut parts = Vec::new();
    for block in result.content {
        parts.push(part(block)?);
    }
    let output = Output {
        structured: result.structured_content,
        parts,
    };
    if result.is_error == Some(true) {
        let text = output.to_text();
        return Err(match text.trim() {
            "" => "the tool failed and does not say why".to_owned(),
            text => text.to_owned(),
        });
    }
    Ok(output)
}

/// The contents of a resource.
pub(super) fn part_of_resource(contents: ResourceContents) -> Result<Part, String> {
    match contents {
        ResourceContents::TextResourceContents { text, .. } => Ok(Part::Text(text)),
        ResourceContents::BlobResourceContents {
            uri,
            mime_type,
            blob,
            ..
        } => {
            let mime = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
            let mut part = decoded(&blob, mime)?;
            if let Part::Blob { uri: place, .. } = &mut part {
                *place = Some(uri);
            }
            Ok(part)
        }
        _ => Err("it sent a kind of resource that is not known here".to_owned()),
    }
}

fn part(block: ContentBlock) -> Result<Part, String> {
    match block {
        ContentBlock::Text(text) => Ok(Part::Text(text.text)),
        ContentBlock::Image(image) => decoded(&image.data, image.mime_type),
        ContentBlock::Audio(audio) => decoded(&audio.data, audio.mime_type),
        ContentBlock::Resource(resource) => part_of_resource(resource.resource),
        ContentBlock::ResourceLink(link) => {
            let about = link.description.or(link.title).unwrap_or_default();
            let text = format!("[resource {} at {}: {about}]", link.name, link.uri);
            Ok(Part::Text(text.replace(": ]", "]")))
        }
        _ => Err("it sent a kind of content that is not known here".to_owned()),
    }
}

fn decoded(base64: &str, mime: String) -> Result<Part, String> {
    let data = STANDARD
        .decode(base64)
        .map_err(|error| format!("it sent {mime} that is not base64: {error}"))?;
    Ok(Part::blob(mime, data))
}

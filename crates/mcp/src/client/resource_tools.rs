//! The resources of another server, as two tools: a model knows how to call, not how to read an address.

use super::link::Link;
use super::output::part_of_resource;
use super::remote_tool::our_name;
use cellblock_tools::{Context, DynamicTool, Output, Part, ToolDefinition, ToolError, ToolFuture};
use rmcp::model::{PaginatedRequestParams, ReadResourceRequestParams};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Resources that one answer lists.
const MAX_LISTED: usize = 500;

enum Does {
    List,
    Read,
}

struct ResourceTool {
    definition: ToolDefinition,
    does: Does,
    link: Arc<Link>,
}

/// `web_list_resources` and `web_read_resource` for the server `web`.
pub(super) fn tools(link: &Arc<Link>) -> Vec<Arc<dyn DynamicTool>> {
    let server = link.name();
    let make = |name: &str, description: String, parameters: Value, does: Does| {
        let parameters = match parameters {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        let mut definition = ToolDefinition::new(our_name(server, name), description, parameters);
        definition.time_limit = Some(link.server().call_limit);
        let tool: Arc<dyn DynamicTool> = Arc::new(ResourceTool {
            definition,
            does,
            link: Arc::clone(link),
        });
        tool
    };
    let list = make(
        "list_resources",
        format!("Lists the documents that the server {server} offers, with their addresses."),
        json!({"type": "object", "properties": {}, "additionalProperties": false}),
        Does::List,
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
        Does::Read,
    );
    vec![list, read]
}

impl DynamicTool for ResourceTool {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn invoke(self: Arc<Self>, mut arguments: Map<String, Value>, _: Context) -> ToolFuture {
        Box::pin(async move {
            match self.does {
                Does::List => list(&self.link).await,
                Does::Read => {
                    let uri = match arguments.remove("uri") {
                        Some(Value::String(uri)) => uri,
                        _ => return Err(ToolError::new("field `uri`: expected a text")),
                    };
                    read(&self.link, uri).await
                }
            }
        })
    }
}

async fn list(link: &Link) -> Result<Output, ToolError> {
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let listed = link
            .ask(|peer| async move { peer.list_resources(Some(page)).await })
            .await?;
        found.extend(listed.resources);
        cursor = listed.next_cursor;
        if cursor.is_none() || found.len() >= MAX_LISTED {
            break;
        }
    }
    found.truncate(MAX_LISTED);
    let list: Vec<Value> = found
        .into_iter()
        .map(|resource| {
            let about = resource.description.or(resource.title);
            json!({"uri": resource.uri, "name": resource.name, "mime": resource.mime_type, "description": about})
        })
        .collect();
    Ok(Output::json(list))
}

async fn read(link: &Link, uri: String) -> Result<Output, ToolError> {
    let request = ReadResourceRequestParams::new(uri);
    let read = link
        .ask(|peer| async move { peer.read_resource(request).await })
        .await?;
    let parts: Result<Vec<Part>, String> =
        read.contents.into_iter().map(part_of_resource).collect();
    Ok(Output {
        structured: None,
        parts: parts.map_err(|why| link.problem(&why))?,
    })
}

//! A tool of another server.

use super::link::Link;
use super::output::output_of;
use super::{Trust, words};
use cellblock_tools::{Context, DynamicTool, Effects, ToolDefinition, ToolFuture};
use rmcp::model::{CallToolRequestParams, Tool};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Characters of a description: it is in every request to a model.
const MAX_DESCRIPTION_CHARS: usize = 4_000;
/// What models and Python take as a name.
const MAX_NAME_CHARS: usize = 64;

struct RemoteTool {
    definition: ToolDefinition,
    /// Its name there.
    theirs: String,
    link: Arc<Link>,
}

/// The tools of a server as ours.
pub(super) fn tools(link: &Arc<Link>, tools: Vec<Tool>) -> Vec<Arc<dyn DynamicTool>> {
    let made = tools.into_iter().map(|tool| {
        let tool: Arc<dyn DynamicTool> = Arc::new(RemoteTool {
            definition: definition(link, &tool),
            theirs: tool.name.into_owned(),
            link: Arc::clone(link),
        });
        tool
    });
    made.collect()
}

/// `search` of the server `web` is `web_search`.
pub(super) fn our_name(server: &str, theirs: &str) -> String {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let whole = format!("{server}_{theirs}");
    let clean = whole.chars().map(|c| if good(c) { c } else { '_' });
    clean.take(MAX_NAME_CHARS).collect()
}

fn definition(link: &Link, tool: &Tool) -> ToolDefinition {
    let mut parameters: Map<String, Value> = tool.input_schema.as_ref().clone();
    parameters.insert("type".to_owned(), json!("object"));
    parameters.entry("properties").or_insert_with(|| json!({}));
    let description = tool.description.as_deref().unwrap_or_default();
    let mut definition = ToolDefinition::new(
        our_name(link.name(), &tool.name),
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
    definition.time_limit = Some(link.server().call_limit);
    let hints = tool.annotations.as_ref();
    let is_read_only = hints.and_then(|hints| hints.read_only_hint) == Some(true);
    definition.effects = match link.server().trust {
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
            let request = CallToolRequestParams::new(self.theirs.clone()).with_arguments(arguments);
            let result = self
                .link
                .ask(|peer| async move { peer.call_tool(request).await })
                .await?;
            let failed = result.is_error == Some(true);
            output_of(result).map_err(|message| match failed {
                true => cellblock_tools::ToolError::new(message),
                false => self.link.problem(&words::short(&message)),
            })
        })
    }
}

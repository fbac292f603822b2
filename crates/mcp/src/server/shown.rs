//! Our tools as the protocol describes tools.

use super::client_sessions::{SESSION, takes_session};
use cellblock_tools::{Effects, ToolDefinition};
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A tool for `tools/list`: without the purpose, with the session it may name.
pub(super) fn shown(definition: &ToolDefinition) -> Tool {
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

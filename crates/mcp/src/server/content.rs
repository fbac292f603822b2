//! What a call came to, as the protocol says it.

use super::files::{file_name, uri_of};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_protocol::Locale;
use cellblock_tools::{Answer, Failure, Part};
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ContentBlock, ProtocolVersion, Resource, ResourceContents};
use rmcp::service::RequestContext;
use serde_json::Value;

/// Characters of the text that a model reads.
const BUDGET: usize = 20_000;
/// Files that one result links to.
const MAX_LINKS: usize = 20;

/// A result, and whether the list of resources is another one now.
pub(super) struct Told {
    pub(super) result: CallToolResult,
    pub(super) changed_files: bool,
}

/// The answer for a client.
pub(super) fn result_of(
    answer: Answer,
    locale: Locale,
    session_name: &str,
    context: &RequestContext<RoleServer>,
) -> Told {
    let mut content = vec![ContentBlock::text(answer.for_model(locale, BUDGET))];
    content.extend(answer.attachments().filter_map(block));
    let output = match answer.outcome {
        Ok(output) => output,
        Err(failure) => {
            let result = match failure {
                // What a person says to the model is no failure.
                Failure::Answered { .. } => CallToolResult::success(content),
                _ => CallToolResult::error(content),
            };
            return Told {
                result,
                changed_files: false,
            };
        }
    };
    let files = output
        .structured
        .as_ref()
        .and_then(|value| value.get("files"));
    let listed = |kind: &str| {
        let list = files.and_then(|files| files.get(kind));
        list.and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice)
    };
    let changed_files = ["created", "deleted"]
        .iter()
        .any(|kind| !listed(kind).is_empty())
        || answer.name == "write_file";
    if knows_links(context) {
        let written = listed("created").iter().chain(listed("changed"));
        content.extend(
            written
                .filter_map(|file| link(file, session_name))
                .take(MAX_LINKS),
        );
    }
    let mut result = CallToolResult::success(content);
    // The protocol knows no other structures than objects.
    result.structured_content = output.structured.filter(Value::is_object).map(shortened);
    Told {
        result,
        changed_files,
    }
}

fn block(part: &Part) -> Option<ContentBlock> {
    let Part::Blob { mime, data, uri } = part else {
        return None;
    };
    let encoded = STANDARD.encode(data);
    Some(match mime.split('/').next() {
        Some("image") => ContentBlock::image(encoded, mime),
        Some("audio") => ContentBlock::audio(encoded, mime),
        _ => ContentBlock::resource(ResourceContents::BlobResourceContents {
            uri: uri.clone().unwrap_or_else(|| "result:document".to_owned()),
            mime_type: Some(mime.clone()),
            blob: encoded,
            meta: None,
        }),
    })
}

fn link(file: &Value, session_name: &str) -> Option<ContentBlock> {
    let path = file.get("path")?.as_str()?;
    let mut resource = Resource::new(uri_of(session_name, path), file_name(path));
    resource.mime_type = file.get("mime").and_then(Value::as_str).map(str::to_owned);
    resource.size = file.get("bytes").and_then(Value::as_u64);
    Some(ContentBlock::resource_link(resource))
}

fn knows_links(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    // Versions are dates: later ones are greater.
    version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2025_06_18.as_str())
}

/// The same structure without the long texts: they are in the content, and a client reads both.
fn shortened(mut value: Value) -> Value {
    match &mut value {
        Value::String(text) if text.len() > BUDGET => {
            let whole = |end: &usize| text.is_char_boundary(*end);
            let end = (0..=BUDGET).rev().find(whole).unwrap_or_default();
            let left_out = text.len() - end;
            text.truncate(end);
            text.push_str(&format!("\n[… {left_out} bytes left out …]"));
        }
        Value::Array(items) => {
            for item in items {
                *item = shortened(item.take());
            }
        }
        Value::Object(map) => {
            for item in map.values_mut() {
                *item = shortened(item.take());
            }
        }
        _ => {}
    }
    value
}

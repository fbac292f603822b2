//! What a server's tool gave, as a result of ours.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_tools::{Output, Part};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

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

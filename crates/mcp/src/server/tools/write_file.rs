//! A file for the session.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_tools::{Context, Output, Part, Tool, ToolError, Uses};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Writes a file of the workspace.
#[derive(Debug)]
pub struct WriteFileTool;

/// Writes a file into the workspace, where code reads it under the same path. What was there before is replaced; directories above it are
/// made. Use it to hand over data or source that you have; use Python to make files from data that is already there.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct WriteFile {
    /// The path, relative to the workspace.
    path: String,
    /// What to write.
    content: String,
    /// How the content is given: utf-8 for text as it is, base64 for anything else.
    #[serde(default)]
    encoding: Encoding,
}

/// How content is given.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
enum Encoding {
    /// A text.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    /// Bytes.
    #[serde(rename = "base64")]
    Base64,
}

impl Tool for WriteFileTool {
    type Parameters = WriteFile;
    type Output = Output;

    fn uses(&self) -> Uses {
        Uses::Interpreter
    }

    async fn call(&self, file: WriteFile, context: &Context) -> Result<Output, ToolError> {
        let contents = match file.encoding {
            Encoding::Utf8 => file.content.into_bytes(),
            Encoding::Base64 => STANDARD.decode(file.content.trim()).map_err(|error| {
                ToolError::new(format!(
                    "the content of {:?} is not base64: {error}",
                    file.path
                ))
            })?,
        };
        let session = context.runner().session().await?;
        let path = file.path.strip_prefix("/workspace/").unwrap_or(&file.path);
        let bytes = contents.len();
        session.put_file(path, contents).await?;
        Ok(Output {
            structured: Some(json!({"path": path, "bytes": bytes})),
            parts: vec![Part::Text(format!("Wrote {path} ({bytes} bytes)."))],
        })
    }
}

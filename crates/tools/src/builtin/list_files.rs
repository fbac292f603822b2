//! What is in the workspace.

use crate::builtin::workspace_path;
use crate::{Context, Output, Part, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// The most files that one answer lists.
const MOST_FILES: usize = 500;

/// Lists the files of the workspace.
#[derive(Debug)]
pub struct ListFilesTool;

/// Lists the files of the workspace with their sizes, sorted by path.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListFiles {
    /// Only files below this directory.
    #[serde(default)]
    directory: Option<String>,
}

impl Tool for ListFilesTool {
    type Parameters = ListFiles;
    type Output = Output;

    async fn call(&self, wanted: ListFiles, context: &Context) -> Result<Output, ToolError> {
        let session = context.workbench().session().await?;
        let directory = wanted.directory.unwrap_or_default();
        let directory = match directory.as_str() {
            "/workspace" | "." => "",
            other => workspace_path(&session, other).trim_end_matches('/'),
        };
        let mut files = session.list_files().await?;
        files.retain(|file| {
            let rest = file.path.strip_prefix(directory);
            directory.is_empty() || rest.is_some_and(|rest| rest.starts_with('/'))
        });
        let total = files.len();
        files.truncate(MOST_FILES);
        let mut lines: Vec<String> = files
            .iter()
            .map(|file| format!("{} ({} bytes, {})", file.path, file.bytes, file.mime))
            .collect();
        if total > files.len() {
            lines.push(format!("… and {} more files", total - files.len()));
        }
        if lines.is_empty() {
            lines.push("There are no files.".to_owned());
        }
        let list: Vec<_> = files
            .iter()
            .map(|file| json!({"path": file.path, "bytes": file.bytes, "mime": file.mime}))
            .collect();
        Ok(Output {
            structured: Some(json!(list)),
            parts: vec![Part::Text(lines.join("\n"))],
        })
    }
}

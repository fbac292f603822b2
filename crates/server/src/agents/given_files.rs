//! Files that a question brings along: they are in the workspace when its code begins.

use crate::error::ApiError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_tools::{Session, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A file of a question, as JSON has it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GivenFile {
    /// The path in the workspace.
    path: String,
    /// The content in base64.
    base64: String,
}

/// The files of a question, with their content.
#[derive(Clone, Debug, Default)]
pub(crate) struct GivenFiles(Vec<(String, Vec<u8>)>);

impl GivenFiles {
    /// Reads the content of files. The error names the file.
    pub(crate) fn read(files: &[GivenFile]) -> Result<GivenFiles, ApiError> {
        let read = |file: &GivenFile| {
            let contents = STANDARD.decode(&file.base64).map_err(|error| {
                ApiError::invalid(format!("files: `{}` is not base64: {error}", file.path))
            })?;
            Ok((file.path.clone(), contents))
        };
        let files: Result<Vec<_>, ApiError> = files.iter().map(read).collect();
        files.map(GivenFiles)
    }

    /// The paths, as the prompt lists them.
    pub(super) fn paths(&self) -> Vec<String> {
        self.0.iter().map(|(path, _)| path.clone()).collect()
    }

    /// Puts the files into a session.
    pub(super) async fn put_into(&self, session: &Session) -> Result<(), ToolError> {
        for (path, contents) in &self.0 {
            session.put_file(path, contents.clone()).await?;
        }
        Ok(())
    }
}

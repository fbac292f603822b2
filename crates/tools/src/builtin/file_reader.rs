//! Reading a text file of the workspace.

use super::decode::{Undecodable, decode};
use crate::builtin::workspace_path;
use crate::{Context, Tool, ToolError};
use cellblock_session::{Error, Session};
use schemars::JsonSchema;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, Read as _};

/// The most that is read at all, whatever is asked for.
const MOST_MEGABYTES: f64 = 15.0;

/// Reads a text file of the workspace.
#[derive(Debug)]
pub struct FileReaderTool;

/// Reads a text file of the workspace. A file larger than max_size_mb is not read; its number of lines and bytes is told instead:
/// read such a file with Python, piece by piece.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct FileReader {
    /// The path, relative to the workspace.
    file_path: String,
    /// The encoding of the file, such as utf-8, gbk or latin-1.
    #[serde(default = "default_encoding")]
    encoding: String,
    /// The largest size that is read, in megabytes.
    #[serde(default = "default_size")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    max_size_mb: f64,
}

fn default_encoding() -> String {
    "utf-8".to_owned()
}

fn default_size() -> f64 {
    1.0
}

impl Tool for FileReaderTool {
    type Parameters = FileReader;
    type Output = String;

    async fn call(&self, wanted: FileReader, context: &Context) -> Result<String, ToolError> {
        let session = context.workbench().session().await?;
        Ok(read(&session, wanted).await)
    }
}

async fn read(session: &Session, wanted: FileReader) -> String {
    let FileReader {
        file_path: path,
        encoding,
        max_size_mb,
    } = wanted;
    let file = match session.open_file(workspace_path(session, &path)).await {
        Ok(file) => file,
        Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return format!("Error: File '{path}' does not exist");
        }
        Err(Error::File { source, .. }) => return format!("Error reading file: {source}"),
        Err(error) => return format!("Error reading file: {error}"),
    };
    let limit = max_size_mb.min(MOST_MEGABYTES) * 1024.0 * 1024.0;
    let looked = tokio::task::spawn_blocking(move || look(file, limit as u64)).await;
    match looked {
        Ok(Ok(Looked::Contents(bytes))) => contents(&bytes, &encoding),
        Ok(Ok(Looked::TooLarge { lines, bytes })) => format!(
            "File '{path}' is too large ({:.2}MB).\nStatistics: {lines} lines, {bytes} bytes",
            bytes as f64 / 1024.0 / 1024.0
        ),
        Ok(Err(error)) => format!("Error reading file: {error}"),
        Err(error) => format!("Error reading file: {error}"),
    }
}

fn contents(bytes: &[u8], encoding: &str) -> String {
    match decode(bytes, encoding) {
        Ok(text) => format!("File contents ({} chars):\n{text}", text.chars().count()),
        Err(Undecodable::Malformed) => {
            format!("Encoding error: Cannot decode file with {encoding}. Try a different encoding.")
        }
        Err(Undecodable::UnknownEncoding) => {
            format!("Error reading file: unknown encoding: {encoding}")
        }
    }
}

enum Looked {
    Contents(Vec<u8>),
    TooLarge { lines: u64, bytes: u64 },
}

/// Reads what is small, and counts what is large.
fn look(mut file: File, limit: u64) -> io::Result<Looked> {
    if file.metadata()?.len() <= limit {
        let mut bytes = Vec::new();
        (&mut file).take(limit + 1).read_to_end(&mut bytes)?;
        // It may have grown meanwhile.
        bytes.truncate(limit as usize);
        return Ok(Looked::Contents(bytes));
    }
    let mut buffer = vec![0; 1 << 16];
    let (mut lines, mut bytes, mut last) = (0, 0, b'\n');
    loop {
        let count = file.read(&mut buffer)?;
        let Some(end) = buffer[..count].last() else {
            break;
        };
        last = *end;
        bytes += count as u64;
        lines += buffer[..count]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count() as u64;
    }
    // The last line need not end.
    lines += u64::from(last != b'\n');
    Ok(Looked::TooLarge { lines, bytes })
}

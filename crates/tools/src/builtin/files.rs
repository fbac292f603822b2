//! Tools that read the workspace: `file_reader` and `list_files`.

use crate::{Context, Output, Part, Tool, ToolError};
use cellblock_session::{Error, Session};
use encoding_rs::{Encoding, UTF_8};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::str;

/// The largest file that is read, whatever the call asks for.
const MAX_FILE_MEGABYTES: f64 = 15.0;
/// The most files in one answer.
const MAX_LISTED_FILES: usize = 500;

/// Reads a text file of the workspace.
#[derive(Debug)]
pub struct FileReaderTool;

/// Reads a text file of the workspace. Of one larger than max_size_mb, its number of lines and bytes is told instead.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct FileReader {
    /// Relative to the workspace.
    file_path: String,
    /// Such as gbk.
    #[serde(default = "default_encoding")]
    encoding: String,
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
        let session = context.runner().session().await?;
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
    let limit = max_size_mb.min(MAX_FILE_MEGABYTES) * 1024.0 * 1024.0;
    let read = tokio::task::spawn_blocking(move || read_or_count(file, limit as u64)).await;
    match read {
        Ok(Ok(FileRead::Content(bytes))) => file_text(&bytes, &encoding),
        Ok(Ok(FileRead::TooLarge { lines, bytes })) => format!(
            "File '{path}' is too large ({:.2}MB).\nStatistics: {lines} lines, {bytes} bytes",
            bytes as f64 / 1024.0 / 1024.0
        ),
        Ok(Err(error)) => format!("Error reading file: {error}"),
        Err(error) => format!("Error reading file: {error}"),
    }
}

fn file_text(bytes: &[u8], encoding: &str) -> String {
    match decode(bytes, encoding) {
        Ok(text) => format!("File contents ({} chars):\n{text}", text.chars().count()),
        Err(DecodeError::Malformed) => {
            format!("Encoding error: Cannot decode file with {encoding}. Try a different encoding.")
        }
        Err(DecodeError::UnknownEncoding) => {
            format!("Error reading file: unknown encoding: {encoding}")
        }
    }
}

enum FileRead {
    Content(Vec<u8>),
    TooLarge { lines: u64, bytes: u64 },
}

/// Reads a file of at most `max_bytes`; counts the lines and bytes of a larger one.
fn read_or_count(mut file: File, max_bytes: u64) -> io::Result<FileRead> {
    if file.metadata()?.len() <= max_bytes {
        let mut bytes = Vec::new();
        (&mut file).take(max_bytes + 1).read_to_end(&mut bytes)?;
        // The file may have grown meanwhile.
        bytes.truncate(max_bytes as usize);
        return Ok(FileRead::Content(bytes));
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
    // The last line may have no newline.
    lines += u64::from(last != b'\n');
    Ok(FileRead::TooLarge { lines, bytes })
}

/// Lists the files of the workspace.
#[derive(Debug)]
pub struct ListFilesTool;

/// Lists the files of the workspace with their sizes.
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
        let session = context.runner().session().await?;
        let directory = wanted.directory.unwrap_or_default();
        let directory = match directory.as_str() {
            "." => "",
            other if Path::new(other) == session.workspace_at() => "",
            other => workspace_path(&session, other).trim_end_matches('/'),
        };
        let mut files = session.list_files().await?;
        files.retain(|file| {
            let rest = file.path.strip_prefix(directory);
            directory.is_empty() || rest.is_some_and(|rest| rest.starts_with('/'))
        });
        let total = files.len();
        files.truncate(MAX_LISTED_FILES);
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

/// The path relative to the workspace. Code in a session sees absolute paths, so models use them too. A path
/// that leads elsewhere is returned as it is: the session refuses it.
pub(super) fn workspace_path<'a>(session: &Session, path: &'a str) -> &'a str {
    let host = session.workspace().to_string_lossy();
    let at = session.workspace_at().to_string_lossy();
    let inside = [at.as_ref(), host.as_ref()]
        .into_iter()
        .find_map(|root| path.strip_prefix(root)?.strip_prefix('/'));
    inside.unwrap_or(path).trim_start_matches("./")
}

/// Why bytes cannot be decoded.
#[derive(Debug, PartialEq, Eq)]
enum DecodeError {
    UnknownEncoding,
    /// The bytes are no text in the encoding.
    Malformed,
}

/// Decodes bytes, in the encodings that Python knows by name. No byte is replaced: a wrong encoding must be
/// noticed.
fn decode(bytes: &[u8], name: &str) -> Result<String, DecodeError> {
    let label = name.trim().to_ascii_lowercase().replace('_', "-");
    let strict = |encoding: &'static Encoding| {
        let (text, _, malformed) = encoding.decode(bytes);
        if malformed {
            Err(DecodeError::Malformed)
        } else {
            Ok(text.into_owned())
        }
    };
    match label.as_str() {
        // A byte order mark is a character here, as it is in Python.
        "utf-8" | "utf8" => str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|_| DecodeError::Malformed),
        "utf-8-sig" => strict(UTF_8),
        // For web browsers, and so for `encoding_rs`, this is windows-1252.
        "ascii" | "us-ascii" => match bytes.is_ascii() {
            true => Ok(bytes.iter().map(|byte| char::from(*byte)).collect()),
            false => Err(DecodeError::Malformed),
        },
        "latin-1" | "latin1" | "iso-8859-1" | "iso8859-1" => {
            Ok(bytes.iter().map(|byte| char::from(*byte)).collect())
        }
        other => {
            let alias = match other {
                "cp936" => "gbk",
                "cp932" => "shift_jis",
                "cp949" => "euc-kr",
                "cp950" => "big5",
                "utf-16" | "utf16" => "utf-16le",
                other => other,
            };
            let windows = alias
                .strip_prefix("cp125")
                .map(|digit| format!("windows-125{digit}"));
            let label = windows.as_deref().unwrap_or(alias);
            strict(Encoding::for_label(label.as_bytes()).ok_or(DecodeError::UnknownEncoding)?)
        }
    }
}

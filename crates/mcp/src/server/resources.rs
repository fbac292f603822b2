//! The files of the workspaces as resources: `workspace://main/data/table.csv`.

use super::Files;
use super::client_sessions::ClientSessions;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_protocol::mime_of;
use rmcp::ErrorData;
use rmcp::model::{ListResourcesResult, ReadResourceResult, Resource, ResourceContents};
use std::fs::File;
use std::io::{self, Read as _};

const SCHEME: &str = "workspace://";
/// Files on one page of the list.
const PAGE_FILES: usize = 500;
/// The largest file that is read as a resource.
const MAX_RESOURCE_BYTES: u64 = 8 << 20;

/// The files of all sessions of a client, a page of them.
pub(super) async fn list(
    sessions: &ClientSessions,
    given: Files,
    cursor: Option<String>,
) -> Result<ListResourcesResult, ErrorData> {
    let from = match &cursor {
        None => 0,
        Some(cursor) => cursor.parse().map_err(|_| {
            ErrorData::invalid_params("the cursor is none that was given out here", None)
        })?,
    };
    let mut resources = Vec::new();
    for (session_name, runner) in sessions.all() {
        let session = match (runner.current_session().await, given) {
            (Some(session), _) => session,
            (None, Files::Given) => runner.session().await.map_err(internal)?,
            // Many clients ask as soon as they come, and then never run anything.
            (None, Files::None) => continue,
        };
        let mut files = session.list_files().await.map_err(internal)?;
        files.sort_by(|one, other| one.path.cmp(&other.path));
        resources.extend(files.into_iter().map(|file| {
            Resource::new(uri_of(&session_name, &file.path), file_name(&file.path))
                .with_title(file.path)
                .with_mime_type(file.mime)
                .with_size(file.bytes)
        }));
    }
    let more = resources.len() > from + PAGE_FILES;
    let page = resources.into_iter().skip(from).take(PAGE_FILES).collect();
    let mut result = ListResourcesResult::with_all_items(page);
    result.next_cursor = more.then(|| (from + PAGE_FILES).to_string());
    Ok(result)
}

/// The contents of one file.
pub(super) async fn read(
    sessions: &ClientSessions,
    uri: &str,
) -> Result<ReadResourceResult, ErrorData> {
    let missing = |reason: String| {
        let uri: String = uri.chars().filter(|c| !c.is_control()).take(200).collect();
        ErrorData::resource_not_found(format!("there is no resource {uri:?}: {reason}"), None)
    };
    let (session_name, path) =
        path_of(uri).ok_or_else(|| missing(format!("addresses here begin with {SCHEME}main/")))?;
    let runner = sessions.get(&session_name).map_err(missing)?;
    let session = runner.session().await.map_err(internal)?;
    let file = session
        .open_file(&path)
        .await
        .map_err(|error| missing(error.to_string()))?;
    let contents = tokio::task::spawn_blocking(move || contents(file))
        .await
        .map_err(internal)?
        .map_err(|error| missing(error.to_string()))?;
    let mime_type = Some(mime_of(&path).to_owned());
    let contents = match String::from_utf8(contents) {
        Ok(text) if !text.contains('\0') => ResourceContents::TextResourceContents {
            uri: uri.to_owned(),
            mime_type,
            text,
            meta: None,
        },
        Ok(text) => blob(uri, mime_type, text.as_bytes()),
        Err(error) => blob(uri, mime_type, error.as_bytes()),
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

fn blob(uri: &str, mime_type: Option<String>, bytes: &[u8]) -> ResourceContents {
    ResourceContents::BlobResourceContents {
        uri: uri.to_owned(),
        mime_type,
        blob: STANDARD.encode(bytes),
        meta: None,
    }
}

fn contents(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let length = file.metadata()?.len();
    file.take(MAX_RESOURCE_BYTES + 1).read_to_end(&mut bytes)?;
    if length > MAX_RESOURCE_BYTES || bytes.len() as u64 > MAX_RESOURCE_BYTES {
        return Err(io::Error::other(format!(
            "it has {length} bytes, and at most {MAX_RESOURCE_BYTES} are read this way; read it with Python, piece by piece"
        )));
    }
    Ok(bytes)
}

/// The address of a file.
pub(super) fn uri_of(session_name: &str, path: &str) -> String {
    let mut uri = format!("{SCHEME}{session_name}/");
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte));
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

/// The session and the path behind an address.
fn path_of(uri: &str) -> Option<(String, String)> {
    let (session_name, path) = uri.strip_prefix(SCHEME)?.split_once('/')?;
    let mut bytes = Vec::new();
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    Some((session_name.to_owned(), String::from_utf8(bytes).ok()?))
}

/// The last part of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn internal(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

#[cfg(test)]
mod tests {
    use super::{path_of, uri_of};

    #[test]
    fn any_path_can_be_an_address() {
        for path in ["a.csv", "data/a b.csv", "ä/100 %.txt", "x#y?z"] {
            let uri = uri_of("main", path);
            assert!(uri.is_ascii() && !uri.contains(' '), "{uri}");
            assert_eq!(path_of(&uri), Some(("main".to_owned(), path.to_owned())));
        }
    }

    #[test]
    fn what_is_no_address_of_ours_has_no_path() {
        for uri in [
            "file:///etc/passwd",
            "workspace://main",
            "workspace://main/%zz",
            "workspace://main/%ff",
            "",
        ] {
            assert_eq!(path_of(uri), None, "{uri}");
        }
    }
}

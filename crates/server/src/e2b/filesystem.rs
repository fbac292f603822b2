//! The methods of `filesystem.Filesystem` that answer at once.

use super::connect::{RpcCode, RpcError};
use super::paths::USER;
use super::sandbox::{FileMetadata, Sandbox, lock};
use super::time::{from_unix, rfc3339};
use cellblock_protocol::{FileKind, FileStat};
use serde::Deserialize;
use serde_json::{Value, json};

/// The deepest listing.
const MAX_DEPTH: u32 = 64;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PathRequest {
    path: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ListRequest {
    path: String,
    depth: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MoveRequest {
    source: String,
    destination: String,
}

/// Describes what is at a path.
pub(super) async fn stat(sandbox: &Sandbox, request: PathRequest) -> Result<Value, RpcError> {
    Ok(json!({"entry": entry_at(sandbox, &sandbox.absolute(&request.path)).await?}))
}

/// Lists a directory.
pub(super) async fn list_dir(sandbox: &Sandbox, request: ListRequest) -> Result<Value, RpcError> {
    let path = sandbox.absolute(&request.path);
    let paths = sandbox.live.session.paths();
    let found = paths.stat(&path).await?;
    if found.kind == FileKind::File {
        return Err(RpcError::invalid(format!(
            "{path}: path is not a directory"
        )));
    }
    let depth = request.depth.clamp(1, MAX_DEPTH);
    let entries = paths.list(&path, depth).await?;
    let mut described = Vec::with_capacity(entries.len());
    for entry in &entries {
        described.push(described_entry(sandbox, entry).await);
    }
    Ok(json!({"entries": described}))
}

/// Makes a directory, with those above it.
pub(super) async fn make_dir(sandbox: &Sandbox, request: PathRequest) -> Result<Value, RpcError> {
    let path = sandbox.absolute(&request.path);
    let paths = sandbox.live.session.paths();
    if let Ok(found) = paths.stat(&path).await {
        return Err(match found.kind {
            FileKind::Directory => RpcError::new(
                RpcCode::AlreadyExists,
                format!("{path}: directory already exists"),
            ),
            _ => RpcError::invalid(format!(
                "{path}: path already exists but it is not a directory"
            )),
        });
    }
    paths.make_dir(&path).await?;
    Ok(json!({"entry": entry_at(sandbox, &path).await?}))
}

/// Renames a file or a directory.
pub(super) async fn move_entry(sandbox: &Sandbox, request: MoveRequest) -> Result<Value, RpcError> {
    let (from, to) = (
        sandbox.absolute(&request.source),
        sandbox.absolute(&request.destination),
    );
    let paths = sandbox.live.session.paths();
    paths.stat(&from).await?;
    if let Some((parent, _)) = to.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) {
        paths.make_dir(parent).await?;
    }
    // A file takes the place of a file, as `rename` of the system does.
    if from != to
        && let Ok(found) = paths.stat(&to).await
        && found.kind != FileKind::Directory
    {
        paths.remove(&to).await?;
    }
    paths.rename(&from, &to).await?;
    move_metadata(&mut lock(&sandbox.file_metadata), &from, &to);
    Ok(json!({"entry": entry_at(sandbox, &to).await?}))
}

/// Removes a file, or a directory with all that is in it. A path at which nothing is counts as removed.
pub(super) async fn remove(sandbox: &Sandbox, request: PathRequest) -> Result<Value, RpcError> {
    let path = sandbox.absolute(&request.path);
    let removed = sandbox.live.session.paths().remove(&path).await;
    match removed.map_err(RpcError::from) {
        Ok(()) => {}
        Err(error) if error.code == RpcCode::NotFound => {}
        Err(error) => return Err(error),
    }
    let below = format!("{path}/");
    lock(&sandbox.file_metadata).retain(|known, _| *known != path && !known.starts_with(&below));
    Ok(json!({}))
}

fn move_metadata(metadata: &mut FileMetadata, from: &str, to: &str) {
    let below = format!("{from}/");
    let moved: Vec<String> = metadata
        .keys()
        .filter(|known| *known == from || known.starts_with(&below))
        .cloned()
        .collect();
    for old in moved {
        if let Some(values) = metadata.remove(&old) {
            metadata.insert(format!("{to}{}", &old[from.len()..]), values);
        }
    }
}

/// What is at a path, as clients read it.
pub(super) async fn entry_at(sandbox: &Sandbox, path: &str) -> Result<Value, RpcError> {
    let found = sandbox.live.session.paths().stat(path).await?;
    Ok(described_entry(sandbox, &found).await)
}

async fn described_entry(sandbox: &Sandbox, stat: &FileStat) -> Value {
    // A link has the type of what it leads to.
    let target = end_of_links(sandbox, stat).await;
    let kind = target.as_ref().map_or(stat.kind, |target| target.kind);
    let mut entry = json!({
        "name": stat.name,
        "path": stat.path,
        "type": type_name(kind),
        "size": stat.bytes.to_string(),
        "mode": stat.mode & 0o7777,
        "permissions": permissions(stat),
        "owner": USER,
        "group": USER,
        "modifiedTime": rfc3339(from_unix(stat.modified)),
    });
    if let Some(text) = &stat.target {
        let leads_to = target.map_or_else(|| text.clone(), |target| target.path);
        entry["symlinkTarget"] = leads_to.into();
        entry["isSymlink"] = true.into();
    }
    if let Some(metadata) = lock(&sandbox.file_metadata).get(&stat.path) {
        entry["metadata"] = json!(metadata);
    }
    entry
}

/// What a link leads to, through further links. `None` where nothing is there, and for what is no link.
async fn end_of_links(sandbox: &Sandbox, stat: &FileStat) -> Option<FileStat> {
    const MAX_LINKS: usize = 40;
    let mut found = None;
    for _ in 0..MAX_LINKS {
        let at: &FileStat = found.as_ref().unwrap_or(stat);
        let Some(target) = at.target.as_ref().filter(|_| at.kind == FileKind::Link) else {
            return found;
        };
        let target = joined(&at.path, target);
        found = Some(sandbox.live.session.paths().stat(&target).await.ok()?);
    }
    None
}

/// The path that a link at `path` leads to.
fn joined(path: &str, target: &str) -> String {
    if target.starts_with('/') {
        return target.to_owned();
    }
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    format!("{parent}/{target}")
}

fn type_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "FILE_TYPE_FILE",
        FileKind::Directory => "FILE_TYPE_DIRECTORY",
        FileKind::Link => "FILE_TYPE_SYMLINK",
        _ => "FILE_TYPE_UNSPECIFIED",
    }
}

/// The mode as `ls` writes it.
fn permissions(stat: &FileStat) -> String {
    let first = match stat.kind {
        FileKind::Directory => 'd',
        FileKind::Link => 'L',
        _ => '-',
    };
    let bits = [
        (0o400, 'r'),
        (0o200, 'w'),
        (0o100, 'x'),
        (0o40, 'r'),
        (0o20, 'w'),
        (0o10, 'x'),
        (0o4, 'r'),
        (0o2, 'w'),
        (0o1, 'x'),
    ];
    let rest = bits
        .iter()
        .map(|(bit, letter)| if stat.mode & bit != 0 { *letter } else { '-' });
    std::iter::once(first).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn metadata_moves_with_a_directory() {
        let values = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let mut metadata = FileMetadata::from([
            ("/w/d/f".to_owned(), values.clone()),
            ("/w/de".to_owned(), values.clone()),
        ]);
        move_metadata(&mut metadata, "/w/d", "/w/x");
        let expected = FileMetadata::from([
            ("/w/x/f".to_owned(), values.clone()),
            ("/w/de".to_owned(), values),
        ]);
        assert_eq!(metadata, expected);
    }
}

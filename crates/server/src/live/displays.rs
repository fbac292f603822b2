//! Large parts of what cells show, kept in files so that events stay small.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_protocol::{MimeBundle, MimeContent};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};

/// Content up to this size stays in the event, if its values take no more memory than this either.
const MAX_INLINE_BYTES: usize = 16 << 10;
const MAX_INLINE_MEMORY: usize = 64 << 10;
/// The bytes that the files of one session may take together. Code decides what is shown.
const MAX_SESSION_BYTES: u64 = 256 << 20;

/// The directory with the large displays of one session. Names are hashes of the contents, so equal contents are kept once.
#[derive(Clone, Debug)]
pub(crate) struct DisplayFiles {
    directory: PathBuf,
    bytes: Arc<AtomicU64>,
}

impl DisplayFiles {
    /// The displays in this directory. It need not exist yet.
    pub(crate) fn new(directory: PathBuf) -> DisplayFiles {
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        let sizes = entries
            .filter_map(|entry| entry.metadata().ok())
            .map(|found| found.len());
        let bytes = Arc::new(AtomicU64::new(sizes.sum()));
        DisplayFiles { directory, bytes }
    }

    /// A bundle as JSON, with large parts as references: `{"$file": "displays/NAME", "bytes": N}`. Writes files, so it blocks.
    pub(crate) fn bundle_json(&self, bundle: &MimeBundle) -> Value {
        let parts = bundle.iter().map(|(mime, content)| {
            let value = if is_large(content) {
                self.keep(mime, content)
            } else {
                content.to_value()
            };
            (mime.to_owned(), value)
        });
        Value::Object(parts.collect::<Map<String, Value>>())
    }

    /// Whether a bundle has parts that are kept in files.
    pub(crate) fn is_large(bundle: &MimeBundle) -> bool {
        bundle.iter().any(|(_, content)| is_large(content))
    }

    fn keep(&self, mime: &str, content: &MimeContent) -> Value {
        let contents = contents_of(mime, content);
        let hash = Sha256::digest(&contents);
        let name: String = hash
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let name = format!("{name}.{}", extension_of(mime));
        match self.write(&name, &contents) {
            Ok(()) => json!({"$file": format!("displays/{name}"), "bytes": contents.len()}),
            Err(error) => json!({"$left_out": error.to_string(), "bytes": contents.len()}),
        }
    }

    fn write(&self, name: &str, contents: &[u8]) -> io::Result<()> {
        let path = self.directory.join(name);
        if path.exists() {
            return Ok(());
        }
        let bytes = contents.len() as u64;
        if self.bytes.load(Ordering::Relaxed) + bytes > MAX_SESSION_BYTES {
            let limit = MAX_SESSION_BYTES >> 20;
            return Err(io::Error::other(format!(
                "the displays of this session have reached {limit} MB"
            )));
        }
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)?;
        // A reader never sees half a file.
        let partial = self.directory.join(format!("{name}.part"));
        let mut options = fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&partial)?;
        file.write_all(contents)?;
        fs::rename(&partial, &path)?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// The path of a display with this name. `None` for a name that none can have.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        let (hash, extension) = name.split_once('.')?;
        let is_hash = hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_known = TYPES.iter().any(|(_, known)| *known == extension) || extension == OTHER;
        (is_hash && is_known).then(|| self.directory.join(name))
    }

    /// Removes all displays.
    pub(crate) fn remove(directory: &Path) {
        // What is left is removed with the data directory.
        let _ = fs::remove_dir_all(directory);
    }
}

fn is_large(content: &MimeContent) -> bool {
    content.bytes() > MAX_INLINE_BYTES || content.memory_when_parsed() > MAX_INLINE_MEMORY
}

const TYPES: &[(&str, &str)] = &[
    ("application/javascript", "js"),
    ("application/json", "json"),
    ("application/pdf", "pdf"),
    ("application/vnd.cellblock.table+json", "json"),
    ("image/gif", "gif"),
    ("image/jpeg", "jpg"),
    ("image/png", "png"),
    ("image/svg+xml", "svg"),
    ("image/webp", "webp"),
    ("text/html", "html"),
    ("text/latex", "tex"),
    ("text/markdown", "md"),
    ("text/plain", "txt"),
];
const OTHER: &str = "bin";

fn extension_of(mime: &str) -> &'static str {
    let found = TYPES.iter().find(|(known, _)| *known == mime);
    found.map_or(OTHER, |(_, extension)| extension)
}

/// The bytes that the content stands for: pictures and other binary types travel as base64.
fn contents_of(mime: &str, content: &MimeContent) -> Vec<u8> {
    let Some(text) = content.as_str() else {
        return content.to_value().to_string().into_bytes();
    };
    let is_text = mime.starts_with("text/")
        || mime.ends_with("+xml")
        || mime.ends_with("json")
        || mime.ends_with("javascript");
    match is_text {
        true => text.as_bytes().to_vec(),
        false => STANDARD
            .decode(text.split_ascii_whitespace().collect::<String>())
            .unwrap_or_else(|_| text.as_bytes().to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_json_with_many_values_is_large() {
        let bundle = |value: Value| MimeBundle::from_iter([("application/json".to_owned(), value)]);
        let values = Value::from_iter((0..1500).map(|_| json!({"": 0})));
        assert!(values.to_string().len() < MAX_INLINE_BYTES);
        assert!(DisplayFiles::is_large(&bundle(values)));
        assert!(!DisplayFiles::is_large(&bundle(json!({"a": [1, 2, 3]}))));
    }
}

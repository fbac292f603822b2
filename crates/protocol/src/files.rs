//! Files of the workspace, and their MIME types.

use serde::{Deserialize, Serialize};

/// A file of the workspace, as `list_files` lists it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Relative to the workspace, with `/` between the parts.
    pub path: String,
    /// The size of the file.
    pub bytes: u64,
    /// The MIME type, guessed from the name by [`mime_of`].
    pub mime: String,
    /// The time of the last write, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<f64>,
}

/// A file, a directory or something else that a session sees, by its absolute path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileStat {
    /// The last part of the path.
    pub name: String,
    /// The path, as code of the session knows it.
    pub path: String,
    /// What it is.
    pub kind: FileKind,
    /// The size of a file.
    pub bytes: u64,
    /// The permission bits.
    pub mode: u32,
    /// When it was last written, in seconds since 1970.
    pub modified: f64,
    /// Where a link leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A plain file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, a socket, a pipe.
    Other,
}

/// A change in a watched directory: `{"path":"/workspace/a","kind":"rename","to":"/workspace/b"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedChange {
    /// The path of the entry, as code of the session knows it.
    pub path: String,
    /// What became of it.
    pub kind: WatchedChangeKind,
    /// Where it is now, for a rename.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// What became of an entry of a watched directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchedChangeKind {
    /// It was made, or came from a place that is not watched.
    Create,
    /// It was written to. Several writes may be one change.
    Write,
    /// It has another path now.
    Rename,
    /// It was removed, or went to a place that is not watched.
    Remove,
    /// Its permissions, its owner or its times were changed.
    Attributes,
    /// Changes are missing, because there were too many: the path is that of the watched directory, which is to be listed anew.
    Lost,
}

/// The MIME type that a file's name promises.
///
/// A short table by hand: the databases of the field have a thousand types for cameras and CAD, and
/// sniffing would mean opening files that hostile code wrote.
pub fn mime_of(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let Some((stem, extension)) = name.rsplit_once('.') else {
        return UNKNOWN;
    };
    if stem.is_empty() {
        return UNKNOWN;
    }
    let extension = extension.to_ascii_lowercase();
    TYPES
        .iter()
        .find(|(known, _)| *known == extension)
        .map_or(UNKNOWN, |(_, mime)| mime)
}

const UNKNOWN: &str = "application/octet-stream";

const TYPES: &[(&str, &str)] = &[
    ("arrow", "application/vnd.apache.arrow.file"),
    ("avif", "image/avif"),
    ("bmp", "image/bmp"),
    ("bz2", "application/x-bzip2"),
    ("c", "text/x-c"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("db", "application/vnd.sqlite3"),
    ("doc", "application/msword"),
    (
        "docx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ),
    ("feather", "application/vnd.apache.arrow.file"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("h5", "application/x-hdf5"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ico", "image/vnd.microsoft.icon"),
    ("ini", "text/plain"),
    ("ipynb", "application/x-ipynb+json"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("jsonl", "application/x-ndjson"),
    ("log", "text/plain"),
    ("md", "text/markdown"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("ndjson", "application/x-ndjson"),
    ("npy", "application/x-npy"),
    ("npz", "application/zip"),
    ("parquet", "application/vnd.apache.parquet"),
    ("pdf", "application/pdf"),
    ("pickle", "application/x-python-pickle"),
    ("pkl", "application/x-python-pickle"),
    ("png", "image/png"),
    (
        "pptx",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ),
    ("py", "text/x-python"),
    ("rs", "text/x-rust"),
    ("sh", "application/x-sh"),
    ("sql", "application/sql"),
    ("sqlite", "application/vnd.sqlite3"),
    ("sqlite3", "application/vnd.sqlite3"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tex", "application/x-tex"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("toml", "application/toml"),
    ("tsv", "text/tab-separated-values"),
    ("txt", "text/plain"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("xls", "application/vnd.ms-excel"),
    (
        "xlsx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ),
    ("xml", "application/xml"),
    ("xz", "application/x-xz"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

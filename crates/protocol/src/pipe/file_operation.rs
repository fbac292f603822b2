//! The operations of the pipe on files that a session sees, by absolute path.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::json::fields::Fields;
use crate::json::invalid::{Invalid, shown_text};

/// Something that is done with the files that a session sees. Paths are absolute, as code of the session knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the wire")]
pub enum FileOperation {
    /// Say what is at a path.
    Stat { path: String },
    /// List a directory, down to `depth` levels.
    ListDir { path: String, depth: u32 },
    /// Make a directory, with those above it.
    MakeDir { path: String },
    /// Rename a file or a directory.
    Move { path: String, to: String },
    /// Remove a file, or a directory with all that is in it.
    Remove { path: String },
    /// Read a part of a file.
    Read {
        path: String,
        offset: u64,
        length: u64,
    },
    /// Write a part of a file. With `truncate`, the file ends after it.
    Write {
        path: String,
        offset: u64,
        contents: Vec<u8>,
        truncate: bool,
    },
    /// Replace the contents of a file by those of a file that a process of the host has open.
    CopyIn { path: String, source: OpenFile },
    /// Replace the contents of a file that a process of the host has open by those of a file.
    CopyOut { path: String, target: OpenFile },
}

/// A plain file that a process of the host has open: usually one of the client's own, in memory or on disk.
///
/// Files of any size cross that way without being encoded, and without being held in memory by the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFile {
    /// The process id, as the host counts.
    pub process: u32,
    /// The number of the descriptor in that process.
    pub descriptor: u32,
}

impl FileOperation {
    /// The most bytes that one `read` answers with: their base64 fits into the longest line that is read.
    pub const MAX_READ_BYTES: u64 = 8 << 20;

    /// Reads the fields that belong to `op`, with the names of all it knows; `None` when it is no operation on files.
    pub(super) fn take(
        op: &str,
        fields: &mut Fields,
    ) -> Option<(&'static [&'static str], Result<Self, Invalid>)> {
        Some(match op {
            "stat" => (&["path"], path(fields).map(|path| Self::Stat { path })),
            "list_dir" => (&["path", "depth"], list_dir(fields)),
            "make_dir" => (&["path"], path(fields).map(|path| Self::MakeDir { path })),
            "move" => (&["path", "to"], rename(fields)),
            "remove" => (&["path"], path(fields).map(|path| Self::Remove { path })),
            "read" => (&["path", "offset", "length"], read(fields)),
            "write" => (&["path", "offset", "base64", "truncate"], write(fields)),
            "copy_in" => (OPEN_FILE_FIELDS, copy_in(fields)),
            "copy_out" => (OPEN_FILE_FIELDS, copy_out(fields)),
            _ => return None,
        })
    }
}

const OPEN_FILE_FIELDS: &[&str] = &["path", "process", "descriptor"];

fn copy_in(fields: &mut Fields) -> Result<FileOperation, Invalid> {
    Ok(FileOperation::CopyIn {
        path: any_path(fields)?,
        source: open_file(fields)?,
    })
}

fn copy_out(fields: &mut Fields) -> Result<FileOperation, Invalid> {
    Ok(FileOperation::CopyOut {
        path: any_path(fields)?,
        target: open_file(fields)?,
    })
}

/// A path of the session: absolute, or one in the workspace.
fn any_path(fields: &mut Fields) -> Result<String, Invalid> {
    let path: String = fields.required("path")?;
    if path.is_empty() || path.contains('\0') {
        let expected = "a path of the session";
        return Err(Invalid::value("path", expected, shown_text(&path)));
    }
    Ok(path)
}

fn open_file(fields: &mut Fields) -> Result<OpenFile, Invalid> {
    let mut number = |name: &str| {
        let value: u64 = fields.required(name)?;
        let expected = "a number that a process or a descriptor can have";
        i32::try_from(value)
            .map(i32::unsigned_abs)
            .map_err(|_| Invalid::value(name, expected, value.to_string()))
    };
    Ok(OpenFile {
        process: number("process")?,
        descriptor: number("descriptor")?,
    })
}

fn path(fields: &mut Fields) -> Result<String, Invalid> {
    absolute_path(fields, "path")
}

/// A field that names an absolute path of the session.
pub(super) fn absolute_path(fields: &mut Fields, name: &str) -> Result<String, Invalid> {
    let path: String = fields.required(name)?;
    if !path.starts_with('/') || path.contains('\0') {
        let expected = "an absolute path of the session";
        return Err(Invalid::value(name, expected, shown_text(&path)));
    }
    Ok(path)
}

fn list_dir(fields: &mut Fields) -> Result<FileOperation, Invalid> {
    let depth: u64 = fields.optional("depth")?.unwrap_or(1);
    Ok(FileOperation::ListDir {
        path: path(fields)?,
        depth: u32::try_from(depth).unwrap_or(u32::MAX),
    })
}

fn rename(fields: &mut Fields) -> Result<FileOperation, Invalid> {
    Ok(FileOperation::Move {
        path: path(fields)?,
        to: absolute_path(fields, "to")?,
    })
}

fn read(fields: &mut Fields) -> Result<FileOperation, Invalid> {
    let length: Option<u64> = fields.optional("length")?;
    Ok(FileOperation::Read {
        path: path(fields)?,
        offset: fields.optional("offset")?.unwrap_or(0),
        length: length
            .unwrap_or(u64::MAX)
            .min(FileOperation::MAX_READ_BYTES),
    })
}

fn write(fields: &mut Fields) -> Result<FileOperation, Invalid> {
    let text: String = fields.required("base64")?;
    let contents = STANDARD
        .decode(&text)
        .map_err(|error| Invalid::value("base64", "base64", error.to_string()))?;
    Ok(FileOperation::Write {
        path: path(fields)?,
        offset: fields.optional("offset")?.unwrap_or(0),
        contents,
        truncate: fields.optional("truncate")?.unwrap_or(false),
    })
}

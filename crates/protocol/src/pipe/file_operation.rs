//! The operations of the pipe on files that a session sees, by absolute path.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::fields::Fields;
use crate::invalid::{Invalid, shown_text};

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
            _ => return None,
        })
    }
}

fn path(fields: &mut Fields) -> Result<String, Invalid> {
    absolute(fields, "path")
}

fn absolute(fields: &mut Fields, name: &str) -> Result<String, Invalid> {
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
        to: absolute(fields, "to")?,
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

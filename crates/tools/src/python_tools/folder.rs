//! The files of a folder with tools, as they are copied into the session.

use super::{PythonToolsError, is_python};
use std::fs;
use std::path::{Path, PathBuf};

/// The most that is copied: tools are code and small data.
const MOST_BYTES: u64 = 32 << 20;
const MOST_FILES: usize = 1000;

/// The files, with their paths relative to the folder.
pub(super) struct Folder {
    pub(super) files: Vec<(String, Vec<u8>)>,
}

impl Folder {
    pub(super) fn read(path: &Path) -> Result<Folder, PythonToolsError> {
        let refuse = |path: &Path, problem: String| PythonToolsError::Folder {
            path: path.to_owned(),
            problem,
        };
        let mut files = Vec::new();
        let mut bytes = 0;
        let mut open = vec![PathBuf::new()];
        while let Some(relative) = open.pop() {
            let directory = match relative.as_os_str().is_empty() {
                true => path.to_owned(),
                false => path.join(&relative),
            };
            let entries =
                fs::read_dir(&directory).map_err(|error| refuse(&directory, error.to_string()))?;
            for entry in entries.flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.starts_with('.') || name == "__pycache__" {
                    continue;
                }
                let relative = relative.join(&name);
                let Ok(data) = entry.metadata() else { continue };
                if data.is_dir() {
                    open.push(relative);
                    continue;
                }
                if !data.is_file() {
                    continue;
                }
                bytes += data.len();
                if bytes > MOST_BYTES || files.len() >= MOST_FILES {
                    let problem = format!(
                        "it holds more than {MOST_FILES} files or {} MiB",
                        MOST_BYTES >> 20
                    );
                    return Err(refuse(path, problem));
                }
                let contents = fs::read(entry.path())
                    .map_err(|error| refuse(&entry.path(), error.to_string()))?;
                files.push((relative.to_string_lossy().into_owned(), contents));
            }
        }
        if !files.iter().any(|(name, _)| is_python(Path::new(name))) {
            return Err(refuse(path, "there is no .py file in it".to_owned()));
        }
        files.sort();
        Ok(Folder { files })
    }
}

//! Directories that are put back get their permissions and attributes last: one that is closed takes nothing in.

use crate::files::history::{Content, FileHistory};
use crate::files::seen::Kind;
use crate::files::store::Attributes;
use cellblock_sandbox::Access;
use std::io;
use std::path::{Path, PathBuf};

impl FileHistory {
    /// Gives the directories among `wanted` what they had, and those that were `opened` on the way what they have. Returns what could not be
    /// put back. From the inside out: a directory may be closed to us afterwards.
    pub(super) fn finish_directories(
        &self,
        wanted: &[(PathBuf, Content)],
        opened: &[(PathBuf, Access)],
    ) -> Vec<String> {
        let mut failed = Vec::new();
        let mut finish = |path: &Path, access: Access, attributes: Option<&Attributes>| {
            if let Err(error) = self.finish_directory(path, access, attributes) {
                failed.push(format!("{}: {error}", path.display()));
            }
        };
        for (path, content) in wanted.iter().rev() {
            match content {
                Content::Directory { access, attributes } => {
                    finish(path, *access, attributes.as_ref());
                }
                Content::Original(seen) if seen.kind == Kind::Directory => {
                    finish(path, seen.access, self.originals.attributes(seen));
                }
                _ => {}
            }
        }
        for (path, access) in opened.iter().rev() {
            let is_wanted = wanted
                .binary_search_by(|(other, _)| other.cmp(path))
                .is_ok();
            if !is_wanted {
                finish(path, *access, None);
            }
        }
        failed
    }

    fn finish_directory(
        &self,
        path: &Path,
        access: Access,
        attributes: Option<&Attributes>,
    ) -> io::Result<()> {
        let Some((entry, seen)) = self.workspace.find(path) else {
            // That it is not there is told elsewhere.
            return Ok(());
        };
        if seen.kind != Kind::Directory {
            return Ok(());
        }
        if let Some(attributes) = attributes {
            attributes.put_back(&entry)?;
        }
        entry.set_access(access)
    }
}

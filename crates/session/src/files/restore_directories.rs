//! Restored directories get their permissions and attributes last: nothing can be put into a directory without write permission.

use crate::files::entry_state::{EntryState, TrackedKind};
use crate::files::history::{Content, FileHistory};
use crate::files::store::Attributes;
use cellblock_sandbox::{Access, EntryHandle};
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
        let mut finish = |path: &Path, wanted: Finished<'_>| {
            if let Err(error) = self.finish_directory(path, wanted) {
                failed.push(format!("{}: {error}", path.display()));
            }
        };
        for (path, content) in wanted.iter().rev() {
            match content {
                Content::Directory { access, attributes } => {
                    let attributes = attributes.as_ref();
                    finish(path, Finished::new(*access, attributes));
                }
                Content::Original(seen) if seen.kind == TrackedKind::Directory => {
                    let attributes = self.originals.attributes(seen);
                    let wanted = Finished::new(seen.access, attributes);
                    finish(
                        path,
                        Finished {
                            inode: Some(seen.inode),
                            ..wanted
                        },
                    );
                }
                _ => {}
            }
        }
        for (path, access) in opened.iter().rev() {
            let is_wanted = wanted
                .binary_search_by(|(other, _)| other.cmp(path))
                .is_ok();
            if !is_wanted {
                finish(path, Finished::new(*access, None));
            }
        }
        failed
    }

    fn finish_directory(&self, path: &Path, wanted: Finished<'_>) -> io::Result<()> {
        let Some((entry, seen)) = self.workspace.find(path) else {
            // That it is not there is told elsewhere.
            return Ok(());
        };
        if seen.kind != TrackedKind::Directory || wanted.is_state_of(&entry, &seen) {
            return Ok(());
        }
        if wanted.inode != Some(seen.inode) {
            self.workspace.refuse_foreign(&entry)?;
        }
        if let Some(attributes) = wanted.attributes {
            attributes.put_back(&entry)?;
        }
        entry.set_access(wanted.access)
    }
}

/// The state in which a directory is to be left.
#[derive(Clone, Copy)]
struct Finished<'a> {
    access: Access,
    attributes: Option<&'a Attributes>,
    /// The directory that it must be, where that is known. Another one is finished only if code could have made it.
    inode: Option<u64>,
}

impl<'a> Finished<'a> {
    fn new(access: Access, attributes: Option<&'a Attributes>) -> Finished<'a> {
        Finished {
            access,
            attributes,
            inode: None,
        }
    }

    /// Whether nothing is left to do for a directory.
    fn is_state_of(&self, entry: &EntryHandle, seen: &EntryState) -> bool {
        let has =
            |attributes: &Attributes| Attributes::of(entry).is_ok_and(|now| now == *attributes);
        self.access == seen.access && self.attributes.is_none_or(has)
    }
}

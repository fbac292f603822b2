//! Programs in a workspace that run with the rights of their owner: code of a session must not be able to rewrite them.

use crate::files::entry_state::{EntryState, TrackedKind};
use crate::files::workspace::Workspace;
use crate::{Error, WorkspaceProblem};
use cellblock_sandbox::SET_ID_BITS;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

impl Workspace {
    /// Whether others would run the file as its owner or its group, and code of a session could have written it: a write through a shared map
    /// does not take the bits away.
    pub(super) fn runs_as_owner(&self, seen: &EntryState) -> bool {
        seen.access.mode & SET_ID_BITS != 0 && self.code_can_write(seen)
    }

    fn code_can_write(&self, seen: &EntryState) -> bool {
        let is_own = seen.access.owner == self.owner;
        seen.kind == TrackedKind::File && (is_own || seen.access.mode & 0o022 != 0)
    }

    /// Refuses a directory of the user's with programs in it that run with rights of their own and that code could rewrite.
    pub(crate) fn refuse_set_id_programs(
        &self,
        found: &BTreeMap<PathBuf, EntryState>,
    ) -> Result<(), Error> {
        const MAX_NAMED: usize = 3;
        if !self.is_user_directory() {
            return Ok(());
        }
        let runs_as_owner = |(path, seen): &(&PathBuf, &EntryState)| {
            self.runs_as_owner(seen)
                || self.code_can_write(seen) && self.directory.has_capabilities(path)
        };
        let mut set_id_files = found.iter().filter(runs_as_owner);
        let named: Vec<String> = set_id_files
            .by_ref()
            .take(MAX_NAMED)
            .map(|(path, _)| path.display().to_string())
            .collect();
        if named.is_empty() {
            return Ok(());
        }
        let more = set_id_files.count();
        let problem = WorkspaceProblem::SetIdPrograms { named, more };
        Err(Error::workspace(&self.path, problem))
    }

    /// Takes from a file the bits with which it runs as its owner. It appeared while the session runs.
    pub(crate) fn disarm(&self, path: &Path) -> Option<EntryState> {
        let (entry, seen) = self.find(path)?;
        if self.runs_as_owner(&seen) && entry.set_access(seen.access).is_ok() {
            tracing::warn!(path = %path.display(), "took the set-user-id or set-group-id bit from a file in the workspace of a session");
        }
        Some(EntryState::from_stat(&entry.stat_now().ok()?))
    }
}

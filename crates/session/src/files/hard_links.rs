//! Hard links: a name that was removed, or that leads to another file, is a name of the same file again.

use crate::files::entry_state::{EntryState, Stamp, TrackedKind};
use crate::files::history::{Content, FileHistory};
use cellblock_sandbox::{EntryHandle, Identity, Links};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

/// Files from before the session that had several names, by what was put back of them.
#[derive(Default)]
pub(crate) struct OriginalNames {
    put_back: HashMap<Stamp, PathBuf>,
}

impl OriginalNames {
    /// Makes `path` a name of the file that it was a name of, or of the file that took its place. False where the file had one name only, or
    /// no other name leads to it now.
    pub(crate) fn link_again(&self, history: &FileHistory, path: &Path, seen: &EntryState) -> bool {
        if seen.kind != TrackedKind::File || seen.has_one_name() || history.is_in_place(path, seen)
        {
            return false;
        }
        let directory = history.workspace.directory();
        let others = history.originals.other_names(path, seen);
        let in_place = others.filter(|other| history.is_in_place(other, seen));
        let mut others = self.put_back.get(&seen.stamp()).into_iter().chain(in_place);
        others.any(|other| {
            let linked = directory
                .find(other, Links::AreNotFollowed)
                .and_then(|entry| {
                    history.make_way(path)?;
                    directory.link(&entry, path)
                });
            linked.is_ok()
        })
    }

    /// Takes note of a file that is there again.
    pub(crate) fn note_put_back(&mut self, path: &Path, content: &Content) {
        if let Content::Original(seen) = content
            && seen.kind == TrackedKind::File
            && !seen.has_one_name()
        {
            self.put_back
                .entry(seen.stamp())
                .or_insert_with(|| path.to_owned());
        }
    }
}

/// The files that had several names after a cell.
pub(crate) struct HardLinks {
    names: HashMap<Identity, Names>,
}

#[derive(Default)]
struct Names {
    paths: Vec<PathBuf>,
    /// The first name that was put back. Where all names were removed, the others are names of this new file.
    put_back: Option<PathBuf>,
}

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linked {
    /// What it led to before.
    No,
    /// The file that it was a name of. Its contents may still be other ones.
    ToTheFile,
    /// The file that has taken its place, with its contents.
    ToWhatWasPutBack,
}

impl HardLinks {
    /// Finds those files in what the history knows of the state after `cell`.
    pub(crate) fn after(history: &FileHistory, cell: u64) -> HardLinks {
        let mut names: HashMap<Identity, Names> = HashMap::new();
        for path in history.versions.keys() {
            if let Some(identity) = identity_of(&history.at(path, cell)) {
                names.entry(identity).or_default().paths.push(path.clone());
            }
        }
        names.retain(|_, names| names.paths.len() > 1);
        HardLinks { names }
    }

    /// Makes `path` a name of the file that it was a name of, if the file has another name now.
    pub(crate) fn link_again(
        &self,
        history: &FileHistory,
        path: &Path,
        content: &Content,
    ) -> io::Result<Linked> {
        let Some((identity, names)) = self.of(content) else {
            return Ok(Linked::No);
        };
        let directory = history.workspace.directory();
        let find = |path: &Path| directory.find(path, Links::AreNotFollowed).ok();
        let is_it = |entry: &EntryHandle| entry.identity().is_ok_and(|found| found == identity);
        if find(path).is_some_and(|entry| is_it(&entry)) {
            return Ok(Linked::No);
        }
        let mut others = names.paths.iter().filter(|other| *other != path);
        let in_place = others.find_map(|other| find(other).filter(is_it));
        let made_anew = || find(names.put_back.as_ref()?);
        let (entry, linked) = match in_place {
            Some(entry) => (entry, Linked::ToTheFile),
            None => match made_anew() {
                Some(entry) => (entry, Linked::ToWhatWasPutBack),
                None => return Ok(Linked::No),
            },
        };
        // A file that other sessions have too gets no name that they do not know of.
        if history.workspace.is_shared(&entry) {
            return Ok(Linked::No);
        }
        history.make_way(path)?;
        directory.link(&entry, path)?;
        Ok(linked)
    }

    /// Notes that a file is at `path` again. It may be a new one: then later ways back look for that.
    pub(crate) fn note_put_back(&mut self, history: &FileHistory, path: &Path, content: &Content) {
        let Content::File { copy, access, .. } = content else {
            return;
        };
        if let Some(names) = identity_of(content).and_then(|it| self.names.get_mut(&it)) {
            names.put_back.get_or_insert_with(|| path.to_owned());
            let directory = history.workspace.directory();
            // Code may have put another file there by now. What belongs to the same owner, and to no other session, it may write to anyway.
            if let Ok(entry) = directory.find(path, Links::AreNotFollowed)
                && entry.stat().st_uid == access.owner
                && !history.workspace.is_shared(&entry)
            {
                copy.set_original(&entry);
            }
        }
    }

    fn of(&self, content: &Content) -> Option<(Identity, &Names)> {
        let identity = identity_of(content)?;
        Some((identity, self.names.get(&identity)?))
    }
}

fn identity_of(content: &Content) -> Option<Identity> {
    match content {
        Content::File { copy, .. } => copy.original(),
        _ => None,
    }
}

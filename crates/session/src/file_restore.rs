//! Going back: every file as it was after an earlier cell, in the same place and, where it can be, in the same file.

use crate::file_history::{Author, Content, FileHistory};
use crate::given::Kept;
use crate::tracker::Changes;
use crate::workspace::{Kind, Seen, Stamp};
use cellblock_sandbox::Access;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

impl FileHistory {
    /// Puts everything back as it was after `cell`: what later cells changed, and `dirty`, what the one that died changed.
    /// Returns what could not be put back.
    pub(crate) fn go_back(&mut self, cell: u64, dirty: Changes) -> Vec<String> {
        // What is copied now is either by someone else, and stays, or about to be undone.
        self.catch_up();
        // What was parted since may be shared again.
        self.begin_sharing();
        let mut failed = Vec::new();
        let paths = self.changed_since(cell, dirty.paths, &mut failed);
        let wanted: Vec<(PathBuf, Content)> = paths
            .into_iter()
            .map(|path| (path.clone(), self.at(&path, cell)))
            .collect();
        // What is in them was not looked at, but it was the cell that made them.
        for directory in dirty.left {
            if matches!(self.at(&directory, cell), Content::Absent)
                && let Err(error) = self.workspace.directory().remove_tree(&directory)
            {
                failed.push(format!("{}: {error}", directory.display()));
            }
        }
        let moved = self.take_aside(&wanted);
        // What must go goes first, from the inside out; then what must be there comes, from the outside in.
        for (path, _) in wanted
            .iter()
            .rev()
            .filter(|(_, content)| matches!(content, Content::Absent))
        {
            self.remove(path);
        }
        let mut stay = Vec::new();
        for (path, content) in &wanted {
            let put = match content {
                Content::Given(seen) => self.put_given(path, seen, moved.get(&seen.stamp())),
                content => self.put(path, content),
            };
            if let Err(error) = put {
                failed.push(format!("{}: {error}", path.display()));
                stay.push(path.clone());
            }
        }
        for versions in self.versions.values_mut() {
            versions.retain(|version| version.cell <= cell);
        }
        // What stays as it is, is part of the state from here on.
        self.note_outside(cell, stay);
        failed.extend(self.damage());
        failed
    }

    /// The paths to look after, and in `failed` those that someone else changed since.
    fn changed_since(
        &mut self,
        cell: u64,
        dirty: Vec<PathBuf>,
        failed: &mut Vec<String>,
    ) -> BTreeSet<PathBuf> {
        let mut paths: BTreeSet<PathBuf> = dirty.into_iter().collect();
        for (path, versions) in &mut self.versions {
            let Some(newest) = versions.last().filter(|version| version.cell > cell) else {
                continue;
            };
            if newest.by == Author::Cell || paths.contains(path) {
                paths.insert(path.clone());
                continue;
            }
            // Someone changed it after the cells did. It is part of the state that we go back to.
            if versions
                .iter()
                .any(|version| version.cell > cell && version.by == Author::Cell)
            {
                failed.push(format!(
                    "{}: it was changed by someone else since, and was left alone",
                    path.display()
                ));
            }
            if let Some(newest) = versions.last_mut() {
                newest.cell = cell;
            }
        }
        paths
    }

    /// Files of the user's that were moved: they are needed where they were, and must not be removed where they are. Returns where
    /// they wait.
    fn take_aside(&self, wanted: &[(PathBuf, Content)]) -> HashMap<Stamp, PathBuf> {
        let mut missing: HashSet<Stamp> = HashSet::new();
        for (path, content) in wanted {
            if let Content::Given(seen) = content
                && seen.kind != Kind::Directory
                && self.given.kept(seen).is_none()
                && !self.is_in_place(path, seen)
            {
                missing.insert(seen.stamp());
            }
        }
        let mut aside = HashMap::new();
        if missing.is_empty() {
            return aside;
        }
        for (path, _) in wanted {
            let Some(now) = self.workspace.look(path) else {
                continue;
            };
            if now.kind != Kind::Directory && missing.contains(&now.stamp()) {
                let name = format!(".cellblock-moved-{}-{}", std::process::id(), now.inode);
                let name = PathBuf::from(name);
                if self.workspace.directory().rename(path, &name).is_ok() {
                    aside.insert(now.stamp(), name);
                }
            }
        }
        aside
    }

    fn is_in_place(&self, path: &Path, seen: &Seen) -> bool {
        let now = self.workspace.look(path);
        now.is_some_and(|now| now.has_same_content(seen))
    }

    /// What was there before the session came, or was moved from there.
    fn put_given(&self, path: &Path, seen: &Seen, aside: Option<&PathBuf>) -> io::Result<()> {
        let access = seen.access;
        if seen.kind == Kind::Directory {
            return self.put(path, &Content::Directory { access });
        }
        if !self.is_in_place(path, seen) {
            match self.given.kept(seen) {
                // It stays kept: it may be removed again.
                Some(Kept::Itself(stored)) => {
                    self.make_way(path)?;
                    self.workspace.directory().link_in(stored.path(), path)?;
                }
                Some(Kept::Copy(copy)) => {
                    self.put_file(path, copy.path(), seen.modified, access)?;
                }
                Some(Kept::Link(target)) => {
                    let target = target.clone();
                    self.put(path, &Content::Link { target, access })?;
                }
                None => {
                    let aside = aside.ok_or_else(nothing_kept)?;
                    self.make_way(path)?;
                    self.workspace.directory().rename(aside, path)?;
                }
            }
        }
        self.workspace.set_access(path, access)
    }

    fn put(&self, path: &Path, content: &Content) -> io::Result<()> {
        let directory = self.workspace.directory();
        match content {
            Content::Absent => Ok(()),
            Content::Unknown | Content::Given(_) => Err(nothing_kept()),
            Content::Directory { access } => {
                let is_new = directory.stat(path).is_err();
                directory.make_directories(path)?;
                if is_new {
                    directory.set_access(path, *access)?;
                }
                Ok(())
            }
            Content::Link { target, access } => {
                self.remove(path);
                directory.make_link(path, target)?;
                directory.set_access(path, *access)
            }
            Content::File {
                copy,
                modified,
                access,
            } => self.put_file(path, copy.path(), *modified, *access),
        }
    }

    fn put_file(&self, path: &Path, copy: &Path, modified: i128, access: Access) -> io::Result<()> {
        let directory = self.workspace.directory();
        let seen = self.workspace.look(path);
        // What other sessions have too is not written to.
        let is_in_the_way =
            |seen: Seen| seen.kind != Kind::File || self.workspace.is_shared(path, &seen);
        if seen.is_some_and(is_in_the_way) {
            self.remove(path);
        }
        let mut file = match directory.write(path) {
            // One that may not be written, not even by its owner.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let mode = access.mode | 0o600;
                directory.set_access(path, Access { mode, ..access })?;
                directory.write(path)?
            }
            opened => opened?,
        };
        io::copy(&mut File::open(copy)?, &mut file)?;
        directory.set_access(path, access)?;
        file.set_modified(time_of(modified))
    }

    /// For something that is moved here.
    fn make_way(&self, path: &Path) -> io::Result<()> {
        self.remove(path);
        match path.parent() {
            Some(parent) => self.workspace.directory().make_directories(parent),
            None => Ok(()),
        }
    }

    fn remove(&self, path: &Path) {
        // A directory that is not empty holds something that is not ours to remove.
        let _ = self.workspace.directory().remove(path);
    }
}

fn nothing_kept() -> io::Error {
    io::Error::other("it was changed, and no copy from before was kept")
}

fn time_of(nanoseconds: i128) -> SystemTime {
    let since = u64::try_from(nanoseconds).unwrap_or(0);
    UNIX_EPOCH + Duration::from_nanos(since)
}

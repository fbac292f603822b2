//! Restores the files of a workspace, after a crash or for an undo: every file as it was after an earlier cell, and where possible
//! in the same inode.
//!
//! The workspace is still the code's: the woken interpreter, or another session in the same directory, may change names meanwhile. So no link is
//! followed, not even one that stays inside; what stands in the way of a path that was recorded is replaced by what was there, or the path is
//! named as not restored. A file is written to only if it is the very file that the copy was taken from.

use crate::files::entry_state::{EntryState, Stamp, TrackedKind, time_of};
use crate::files::hard_links::{HardLinks, Linked, OriginalNames};
use crate::files::history::{Author, Content, FileHistory};
use crate::files::original_files::Preserved;
use crate::files::store::Attributes;
use crate::files::store::Stored;
use crate::files::tracker::Changes;
use cellblock_sandbox::{Access, EntryHandle, Links, unguessable_name};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The paths where moved files of the user's are kept until they are put back.
type MovedFiles = HashMap<Stamp, Vec<PathBuf>>;

impl FileHistory {
    /// Puts everything back as it was after `cell`: what later cells changed, and `dirty`, what the one that died changed.
    /// Files in `busy` stay as they are: a process that goes on has them open for writing. Returns what could not be put back.
    pub(crate) fn restore_to(
        &mut self,
        cell: u64,
        dirty: Changes,
        busy: &[PathBuf],
    ) -> Vec<String> {
        // What is copied now was either changed from outside, and stays, or is about to be undone.
        self.catch_up();
        // What was parted since may be shared again.
        self.begin_sharing();
        let mut failed = Vec::new();
        let mut paths = self.changed_since(cell, dirty.paths, &mut failed);
        self.add_held(cell, &mut paths, &mut failed);
        let mut stay = Vec::new();
        for path in busy.iter().filter(|path| paths.contains(*path)) {
            failed.push(format!(
                "{}: a process that goes on has it open for writing, so it was left alone",
                path.display()
            ));
            stay.push(path.clone());
        }
        paths.retain(|path| !stay.contains(path));
        let wanted: Vec<(PathBuf, Content)> = paths
            .into_iter()
            .map(|path| (path.clone(), self.at(&path, cell)))
            .collect();
        let opened = self.open_up(&wanted);
        // What is in them was not looked at, but it was the cell that made them.
        for directory in dirty.left {
            if matches!(self.at(&directory, cell), Content::Absent)
                && let Err(error) = self.workspace.directory().remove_tree(&directory)
            {
                failed.push(format!("{}: {error}", directory.display()));
            }
        }
        let mut moved = self.set_moved_files_aside(&wanted);
        // What must go goes first, from the inside out; then what must be there comes, from the outside in.
        for (path, _) in wanted
            .iter()
            .rev()
            .filter(|(_, content)| matches!(content, Content::Absent))
        {
            self.remove(path);
        }
        let mut hard_links = HardLinks::after(self, cell);
        let mut names = OriginalNames::default();
        for (path, content) in &wanted {
            let put = match content {
                Content::Original(seen) if names.link_again(self, path, seen) => Ok(()),
                Content::Original(seen) => self.put_original(path, seen, &mut moved),
                content => match hard_links.link_again(self, path, content) {
                    Ok(Linked::ToWhatWasPutBack) => Ok(()),
                    // Where the file cannot have this name again, a copy of it has.
                    Ok(Linked::ToTheFile | Linked::No) | Err(_) => self.put(path, content),
                },
            };
            if put.is_ok() {
                hard_links.note_put_back(self, path, content);
                names.note_put_back(path, content);
            }
            if let Err(error) = put {
                failed.push(format!("{}: {error}", path.display()));
                stay.push(path.clone());
            }
        }
        failed.extend(self.finish_directories(&wanted, &opened));
        for name in moved.into_values().flatten() {
            failed.push(format!(
                "{}: it was moved here while files were put back, and its place was taken",
                name.display()
            ));
            stay.push(name);
        }
        for versions in self.versions.values_mut() {
            versions.retain(|version| version.cell <= cell);
        }
        // What stays as it is, is part of the state from here on.
        self.note_between(cell, Author::Outside, stay);
        failed.extend(self.damage());
        failed
    }

    /// The paths to look after, and in `failed` those that were changed from outside since.
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
            // It was changed after the cells did so. It is part of the state that we go back to.
            let mut later = versions.iter().filter(|version| version.cell > cell);
            let authors: Vec<Author> = later.by_ref().map(|version| version.by).collect();
            let what = if authors.contains(&Author::Unclear) {
                Some(
                    "it was changed between cells, maybe by a process or thread that a cell left running, and was left alone",
                )
            } else if authors.contains(&Author::Cell) {
                Some("it was changed from outside since, and was left alone")
            } else {
                None
            };
            failed.extend(what.map(|what| format!("{}: {what}", path.display())));
            if let Some(newest) = versions.last_mut() {
                newest.cell = cell;
            }
        }
        paths
    }

    /// Adds files that were written to without being noticed, and in `failed` those of which that cannot be told.
    fn add_held(&mut self, cell: u64, paths: &mut BTreeSet<PathBuf>, failed: &mut Vec<String>) {
        for path in self.held.take().unwrap_or_default() {
            if paths.contains(&path) {
                continue;
            }
            let wanted = self.at(&path, cell);
            let is_same = self.compare(&path, &wanted).unwrap_or_else(|_| {
                let now = self.workspace.look(&path).map(|seen| seen.modified);
                match wanted {
                    Content::File { modified, .. } => now == Some(modified),
                    Content::Original(seen) => now == Some(seen.modified),
                    _ => true,
                }
            });
            if !is_same {
                paths.insert(path);
            }
        }
        for (path, (last, reason)) in &mut self.uncompared {
            if *last >= cell && !paths.contains(path) {
                failed.push(format!(
                    "{}: it is mapped into memory and {reason}, so what was written to it by that way may still be there",
                    path.display()
                ));
            }
            // For a way further back.
            *last = cell.min(*last);
        }
        if let Some(last) = self.unseen_after.filter(|last| *last >= cell) {
            self.unseen_after = Some(cell.min(last));
            failed.push(
                "files that are mapped into memory: a process of the session could not be looked into, so what was written to them by that way may still be there"
                    .to_owned(),
            );
        }
    }

    /// A directory that a cell closed is opened, so that what was in it can be put back. Where that fails, putting something back fails too,
    /// and that is told.
    /// Returns the directories that were opened, with the access that they had.
    fn open_up(&self, wanted: &[(PathBuf, Content)]) -> Vec<(PathBuf, Access)> {
        let mut last = None;
        let mut opened = Vec::new();
        for parent in wanted.iter().filter_map(|(path, _)| path.parent()) {
            if last.replace(parent) == Some(parent) || self.is_open(parent, &mut opened) {
                continue;
            }
            let mut above: Vec<&Path> = parent.ancestors().collect();
            above.pop();
            for path in above.into_iter().rev() {
                self.is_open(path, &mut opened);
            }
        }
        opened
    }

    /// Opens a directory to its owner, if that is needed. False when nothing can be said of it.
    fn is_open(&self, path: &Path, opened: &mut Vec<(PathBuf, Access)>) -> bool {
        let Some((entry, seen)) = self.workspace.find(path) else {
            return false;
        };
        if seen.kind == TrackedKind::Directory && seen.access.mode & 0o700 != 0o700 {
            let mode = seen.access.mode | 0o700;
            let is_opened = entry.set_access(Access {
                mode,
                ..seen.access
            });
            if is_opened.is_ok() {
                opened.push((path.to_owned(), seen.access));
            }
        }
        true
    }

    /// Files of the user's that were moved: they are needed where they were, and must not be removed where they are. Returns where
    /// they wait.
    fn set_moved_files_aside(&self, wanted: &[(PathBuf, Content)]) -> MovedFiles {
        let mut missing: HashSet<Stamp> = HashSet::new();
        for (path, content) in wanted {
            if let Content::Original(seen) = content
                && seen.kind != TrackedKind::Directory
                && self.originals.preserved(seen).is_none()
                && !self.is_in_place(path, seen)
            {
                missing.insert(seen.stamp());
            }
        }
        let mut aside = MovedFiles::new();
        if missing.is_empty() {
            return aside;
        }
        for (path, _) in wanted {
            let Some(now) = self.workspace.look(path) else {
                continue;
            };
            if now.kind != TrackedKind::Directory && missing.contains(&now.stamp()) {
                let name = PathBuf::from(unguessable_name());
                if self.workspace.directory().rename(path, &name).is_ok() {
                    aside.entry(now.stamp()).or_default().push(name);
                }
            }
        }
        aside
    }

    pub(super) fn is_in_place(&self, path: &Path, seen: &EntryState) -> bool {
        let now = self.workspace.look(path);
        now.is_some_and(|now| now.has_same_content(seen))
    }

    /// Puts a file back that was there before the session came, or was moved from there.
    fn put_original(
        &self,
        path: &Path,
        seen: &EntryState,
        aside: &mut MovedFiles,
    ) -> io::Result<()> {
        let access = seen.access;
        if seen.kind == TrackedKind::Directory {
            let attributes = self.originals.attributes(seen).cloned();
            return self.put(path, &Content::Directory { access, attributes });
        }
        let attributes = self.originals.attributes(seen);
        let mut may_differ = false;
        if let Some(now) = self
            .workspace
            .look(path)
            .filter(|now| now.has_same_content(seen))
        {
            may_differ = now.has_one_name() && !seen.is_untouched_in(&now);
        } else {
            match self.originals.preserved(seen) {
                // It stays kept: it may be removed again.
                Some(Preserved::Itself(stored)) => {
                    self.make_way(path)?;
                    self.workspace.directory().link_in(stored.path(), path)?;
                }
                Some(Preserved::Copy(copy)) => {
                    self.put_file(path, copy, seen.modified, access, attributes)?;
                    return attributes.map(drop).ok_or_else(not_recorded);
                }
                Some(Preserved::Link(target)) => {
                    let target = target.clone();
                    return self.put(path, &Content::Link { target, access });
                }
                None => {
                    let waiting = aside.get_mut(&seen.stamp()).and_then(Vec::pop);
                    if waiting.is_none() && seen.kind == TrackedKind::Pipe {
                        return self.put(path, &Content::Pipe { access });
                    }
                    let name = waiting.ok_or_else(nothing_kept)?;
                    let moved = self
                        .make_way(path)
                        .and_then(|()| self.workspace.directory().rename(&name, path));
                    if let Err(error) = moved {
                        aside.entry(seen.stamp()).or_default().push(name);
                        return Err(error);
                    }
                }
            }
        }
        if seen.kind == TrackedKind::File
            && let Some(attributes) = attributes
        {
            self.put_attributes(path, seen, attributes)?;
            may_differ = false;
        }
        self.workspace.set_access(path, seen)?;
        if may_differ && seen.kind == TrackedKind::File {
            return Err(not_recorded());
        }
        Ok(())
    }

    /// Gives a file that is where it was the extended attributes that it had.
    fn put_attributes(
        &self,
        path: &Path,
        seen: &EntryState,
        attributes: &Attributes,
    ) -> io::Result<()> {
        let entry = self
            .workspace
            .directory()
            .find(path, Links::AreNotFollowed)?;
        if entry.stat().st_ino != seen.inode {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        // What others have too is not changed: a session's own changes are made to a copy.
        if self.workspace.is_shared(&entry) {
            return Ok(());
        }
        attributes.put_back(&entry)
    }

    fn put(&self, path: &Path, content: &Content) -> io::Result<()> {
        let directory = self.workspace.directory();
        let find = || directory.find(path, Links::AreNotFollowed);
        match content {
            Content::Absent => match find() {
                Ok(_) => Err(io::Error::other(
                    "it could not be removed, or holds what no cell made",
                )),
                Err(_) => Ok(()),
            },
            Content::Unknown | Content::Original(_) => Err(nothing_kept()),
            Content::Directory { access, .. } => {
                if find().is_ok_and(|entry| kind_of(&entry) == TrackedKind::Directory) {
                    return Ok(());
                }
                self.make_way(path)?;
                directory.make_directories(path, Links::AreNotFollowed)?;
                self.workspace.set_own_access(&find()?, *access)
            }
            Content::Link { target, access } => {
                self.make_way(path)?;
                directory.make_link(path, target)?;
                let made = find()?;
                match made.read_link()? == *target {
                    true => made.set_access(*access),
                    false => Err(io::ErrorKind::ResourceBusy.into()),
                }
            }
            Content::Pipe { access } => {
                if !find().is_ok_and(|entry| kind_of(&entry) == TrackedKind::Pipe) {
                    self.make_way(path)?;
                    directory.make_pipe(path)?;
                }
                let made = find()?;
                match kind_of(&made) {
                    TrackedKind::Pipe => self.workspace.set_own_access(&made, *access),
                    _ => Err(io::ErrorKind::ResourceBusy.into()),
                }
            }
            Content::SocketOrDevice(seen) => match self.workspace.find(path) {
                Some((entry, now)) if now.has_same_content(seen) => entry.set_access(seen.access),
                _ => Err(io::Error::other(
                    "it was a socket or a device, which cannot be made again",
                )),
            },
            Content::File {
                copy,
                modified,
                access,
                attributes,
            } => self.put_file(path, copy, *modified, *access, Some(attributes)),
        }
    }

    fn put_file(
        &self,
        path: &Path,
        copy: &Stored,
        modified: i128,
        access: Access,
        attributes: Option<&Attributes>,
    ) -> io::Result<()> {
        let directory = self.workspace.directory();
        let found = directory.find(path, Links::AreNotFollowed).ok();
        // One that cannot be opened, because a process has a lease on it or runs it, is replaced.
        if let Some(entry) = found.as_ref().filter(|entry| copy.is_copy_of(entry))
            && let Ok(true) = self.write_back(entry, copy, modified, access, attributes)
        {
            return Ok(());
        }
        // A file or a link is replaced in one step.
        if found.is_none_or(|entry| kind_of(&entry) == TrackedKind::Directory) {
            self.make_way(path)?;
        }
        let mut contents = File::open(copy.path())?;
        let made = directory.replace_by(path, &mut contents, access, time_of(modified))?;
        let Some(attributes) = attributes else {
            return Ok(());
        };
        attributes.put_back(&made)?;
        made.set_access(access)
    }

    /// Writes what was in a file into that file, so that open handles stay good. False when other sessions have it too.
    fn write_back(
        &self,
        entry: &EntryHandle,
        copy: &Stored,
        modified: i128,
        access: Access,
        attributes: Option<&Attributes>,
    ) -> io::Result<bool> {
        let writing = match self.workspace.write_to(entry) {
            // One that may not be written, not even by its owner.
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied
                    && !self.workspace.is_shared(entry) =>
            {
                let mode = access.mode | 0o600;
                entry.set_access(Access { mode, ..access })?;
                self.workspace.write_to(entry)?
            }
            opened => opened?,
        };
        let Some(mut writing) = writing else {
            return Ok(false);
        };
        writing.file.set_len(0)?;
        io::copy(&mut File::open(copy.path())?, &mut writing.file)?;
        if let Some(attributes) = attributes {
            attributes.put_back(entry)?;
        }
        entry.set_access(access)?;
        writing.file.set_modified(system_time_of(modified))?;
        Ok(true)
    }

    /// For something that is put here: what is in the way goes, and the directories above it come.
    pub(super) fn make_way(&self, path: &Path) -> io::Result<()> {
        self.remove(path);
        match path.parent() {
            Some(parent) => self
                .workspace
                .directory()
                .make_directories(parent, Links::AreNotFollowed),
            None => Ok(()),
        }
    }

    fn remove(&self, path: &Path) {
        // A directory that is not empty holds something that is not ours to remove.
        let _ = self.workspace.directory().remove(path);
    }
}

fn kind_of(entry: &EntryHandle) -> TrackedKind {
    EntryState::from_stat(entry.stat()).kind
}

fn nothing_kept() -> io::Error {
    io::Error::other("it was changed, and no copy from before was kept")
}

fn not_recorded() -> io::Error {
    io::Error::other(
        "its extended attributes and access list were not recorded before the first change, so they may not be as they were",
    )
}

fn system_time_of(nanoseconds: i128) -> SystemTime {
    let since = u64::try_from(nanoseconds).unwrap_or(0);
    UNIX_EPOCH + Duration::from_nanos(since)
}

#[cfg(test)]
#[path = "restore_tests.rs"]
mod tests;

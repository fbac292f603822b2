//! Keeps files of the user's before a session changes them: init asks, the system call waits, the answer lets it go on.

use crate::Error;
use crate::files::entry_state::{EntryState, TrackedKind};
use crate::files::history::FileHistory;
use crate::files::original_files::Preserved;
use crate::files::shared_history::SharedHistory;
use crate::wire::packets::Packets;
use cellblock_sandbox::{Change, EntryHandle, KeptScope, PendingChange};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::task::JoinHandle;

/// A path and what comes before it.
const MAX_PACKET_BYTES: usize = 8 << 10;

/// The socket on which init asks.
#[derive(Clone, Debug)]
pub(crate) struct PreserveSocket {
    init: Arc<Packets>,
}

impl PreserveSocket {
    /// Sees to it that a file is asked about before it is changed. False when that cannot be.
    pub(crate) fn ask_about(&self, seen: &EntryState) -> bool {
        let now = nanoseconds(SystemTime::now());
        let is_past = seen.modified <= i128::from(now);
        is_past
            && self
                .init
                .send_now(&PendingChange::ask_about_older(now))
                .is_ok()
    }
}

/// Answers for as long as init lives. What was last written before `begun` was there before the session; `None` when nothing was.
pub(crate) fn serve(
    socket: OwnedFd,
    history: SharedHistory,
    begun: Option<SystemTime>,
) -> Result<JoinHandle<()>, Error> {
    let init = Packets::new(socket, MAX_PACKET_BYTES)
        .map_err(Error::system("listening to what init says of files"))?;
    match init.send_now(&PendingChange::ask_about_older(
        begun.map_or(0, nanoseconds),
    )) {
        // It cannot ask, or it is gone; either is told elsewhere.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            return Err(Error::system("telling init what to ask about")(error));
        }
        _ => {}
    }
    let init = Arc::new(init);
    history.lock().set_preserve_socket(PreserveSocket {
        init: Arc::clone(&init),
    });
    Ok(tokio::spawn(async move {
        while let Ok(packet) = init.receive().await {
            let Ok(changing) = PendingChange::from_bytes(&packet.bytes) else {
                continue;
            };
            let answer = match keep(&history, changing.clone()).await {
                Ok(preserved_extent) => changing.kept(preserved_extent),
                Err(error) => changing.refused(&error),
            };
            if init.send(&answer, &[]).await.is_err() {
                return;
            }
        }
    }))
}

fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// At once where that is quick; a copy of a large file must not hold up other sessions.
async fn keep(history: &SharedHistory, changing: PendingChange) -> io::Result<KeptScope> {
    let PendingChange { path, how, .. } = changing;
    if how != Change::Removes
        && let Some(mut history) = history.try_lock()
        && history.preserve_without_copy(&path, how)
    {
        return Ok(history.preserved_extent(&path));
    }
    let kept = history.with(move |history| {
        history.keep(&path, how)?;
        Ok(match how {
            Change::Writes | Change::Marks | Change::Names => history.preserved_extent(&path),
            Change::Removes => history.preserve_siblings(&path),
        })
    });
    kept.await
        .unwrap_or_else(|problem| Err(io::Error::other(problem)))
}

/// Files that could not be kept are counted up to here.
const MAX_UNPRESERVED: usize = 100;

impl FileHistory {
    /// Keeps what is in a file that is about to be changed, where it is to be kept, and makes the file this session's own. An error
    /// means that it must not be changed.
    pub(crate) fn keep(&mut self, path: &Path, how: Change) -> io::Result<()> {
        let Some((entry, seen)) = self.workspace.find(path) else {
            return Ok(());
        };
        if self.preserve_found(&entry, &seen, how) {
            return Ok(());
        }
        if how != Change::Removes && self.workspace.is_shared(&entry) {
            return self.make_own(path, &entry, &seen);
        }
        let is_as_before = || {
            let now = entry.stat_now().ok();
            now.map(|now| EntryState::from_stat(&now))
                .is_some_and(|now| now.has_same_content(&seen))
        };
        let problem = match self.copy_within_limit(&entry, seen.bytes) {
            Ok(copy) if is_as_before() => {
                self.originals.keep(&seen, copy);
                return Ok(());
            }
            // Init lets no call wait for ever.
            Ok(_) => "it was changed while it was copied".to_owned(),
            Err(error) => error.to_string(),
        };
        if self.unpreserved.len() < MAX_UNPRESERVED {
            self.unpreserved.insert(path.to_owned(), problem);
        }
        Ok(())
    }

    /// Keeps a file that is about to be changed without a copy. False when a copy is needed.
    pub(crate) fn preserve_without_copy(&mut self, path: &Path, how: Change) -> bool {
        match self.workspace.find(path) {
            Some((entry, seen)) => self.preserve_found(&entry, &seen, how),
            None => true,
        }
    }

    fn preserve_found(&mut self, entry: &EntryHandle, seen: &EntryState, how: Change) -> bool {
        let is_shared = self.workspace.is_shared(entry);
        if is_shared && how != Change::Removes {
            return false;
        }
        if how == Change::Names {
            self.workspace.forget_share(entry);
        }
        // What is written to a pipe or a device is nothing of its own.
        let stays = matches!(how, Change::Marks | Change::Names)
            || (how == Change::Writes && seen.kind.is_special());
        if stays || !self.originals.is_untouched(seen) {
            return true;
        }
        match self.originals.preserved(seen) {
            // It was to be removed and is still there: now it is written to.
            Some(Preserved::Itself(_)) if how == Change::Writes => return false,
            Some(_) => return true,
            None => {}
        }
        let kept = match (seen.kind, how) {
            (TrackedKind::Link, _) => entry.read_link().map(Preserved::Link),
            (_, Change::Removes) if seen.has_one_name() || is_shared => {
                self.store.link(entry).map(Preserved::Itself)
            }
            _ => return false,
        };
        let is_kept = kept.is_ok();
        if let Ok(kept) = kept {
            self.originals.keep(seen, kept);
        }
        is_kept
    }

    /// Makes a file that other sessions have too this one's own. The copy is for the session that changes it; the original is kept as it is.
    fn make_own(&mut self, path: &Path, entry: &EntryHandle, seen: &EntryState) -> io::Result<()> {
        if self.own_copy_bytes.saturating_add(seen.bytes) > self.limit {
            return Err(rustix::io::Errno::DQUOT.into());
        }
        if self.originals.is_untouched(seen)
            && self.originals.preserved(seen).is_none()
            && let Ok(itself) = self.store.link(entry)
        {
            self.originals.keep(seen, Preserved::Itself(itself));
        }
        self.workspace.make_own(path)?;
        self.own_copy_bytes += seen.bytes;
        Ok(())
    }

    /// A fork has been made, or files are put back: what is shared now may be copied once more.
    pub(crate) fn begin_sharing(&mut self) {
        self.own_copy_bytes = 0;
    }

    /// Keeps everything that may be removed together with `path`, if that takes no copies.
    pub(crate) fn preserve_siblings(&mut self, removed: &Path) -> KeptScope {
        let Some(siblings) = self.originals.siblings(removed) else {
            return KeptScope::Removed;
        };
        let mut all = !siblings.is_empty();
        for path in siblings {
            // Most of them are kept since the first was removed.
            let has_work = |seen: EntryState| {
                self.originals.is_untouched(&seen) && self.originals.preserved(&seen).is_none()
            };
            if self.workspace.look(&path).is_some_and(has_work) {
                all &= self.preserve_without_copy(&path, Change::Removes);
            }
        }
        if all {
            KeptScope::TheDirectory
        } else {
            self.originals.keep_one_by_one(removed);
            KeptScope::Removed
        }
    }

    /// Tells that a file was kept, and which one it is now, if it is this session's own.
    pub(crate) fn preserved_extent(&self, path: &Path) -> KeptScope {
        let found = self.workspace.find(path);
        let own = found.filter(|(entry, _)| !self.workspace.is_shared(entry));
        KeptScope::TheFile {
            own: own.map(|(_, seen)| seen.inode),
        }
    }

    fn copy_within_limit(&mut self, entry: &EntryHandle, bytes: u64) -> io::Result<Preserved> {
        if self.store.bytes().saturating_add(bytes) > self.limit {
            return Err(io::Error::new(
                io::ErrorKind::QuotaExceeded,
                "the copies would take more than the limit `disk`",
            ));
        }
        let copy = self.store.copy(entry).map(Preserved::Copy)?;
        self.originals.note_attributes(entry);
        Ok(copy)
    }
}

//! Keeps files of the user's before a session changes them: init asks, the system call waits, the answer lets it go on.

use crate::Error;
use crate::files::shared_history::History;
use crate::files::workspace::Seen;
use crate::wire::packets::Packets;
use cellblock_sandbox::{Change, KeptScope, PendingChange};
use std::io;
use std::os::fd::OwnedFd;
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
    pub(crate) fn ask_about(&self, seen: &Seen) -> bool {
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
    history: History,
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
async fn keep(history: &History, changing: PendingChange) -> io::Result<KeptScope> {
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

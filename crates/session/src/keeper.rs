//! Keeps files of the user's before a session changes them: init asks, the system call waits, the answer lets it go on.

use crate::Error;
use crate::file_history::FileHistory;
use crate::packets::Packets;
use cellblock_sandbox::{Change, Changing, HowMuch};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::task::JoinHandle;

/// A path and what comes before it.
const LONGEST: usize = 8 << 10;

/// Answers for as long as init lives. What was last written before `begun` was there before the session.
pub(crate) fn serve(
    socket: OwnedFd,
    history: Arc<Mutex<FileHistory>>,
    begun: SystemTime,
) -> Result<JoinHandle<()>, Error> {
    let init = Packets::new(socket, LONGEST)
        .map_err(Error::system("listening to what init says of files"))?;
    let begun = begun.duration_since(UNIX_EPOCH).unwrap_or_default();
    let begun = u64::try_from(begun.as_nanos()).unwrap_or(u64::MAX);
    Ok(tokio::spawn(async move {
        if init
            .send(&Changing::ask_about_older(begun), &[])
            .await
            .is_err()
        {
            return;
        }
        while let Ok(packet) = init.receive().await {
            let Ok(changing) = Changing::from_bytes(&packet.bytes) else {
                continue;
            };
            let how_much = keep(&history, changing.clone()).await;
            let answer = changing.kept(how_much);
            if init.send(&answer, &[]).await.is_err() {
                return;
            }
        }
    }))
}

/// At once where that is quick; a copy of a large file must not hold up other sessions.
async fn keep(history: &Arc<Mutex<FileHistory>>, changing: Changing) -> HowMuch {
    let Changing { path, how, .. } = changing;
    if how == Change::Writes
        && history
            .try_lock()
            .is_ok_and(|mut history| history.keep_quickly(&path, how))
    {
        return HowMuch::TheFile;
    }
    let history = Arc::clone(history);
    let work = move || {
        let mut history = history.lock().unwrap_or_else(PoisonError::into_inner);
        history.keep(&path, how);
        match how {
            Change::Writes => HowMuch::TheFile,
            Change::Removes => history.keep_beside(&path),
        }
    };
    let kept = tokio::task::spawn_blocking(work).await;
    kept.unwrap_or(HowMuch::TheFile)
}

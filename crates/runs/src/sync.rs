//! Brings files to the disk without anyone waiting for it.
//!
//! What was written is safe from the end of this program at once; only the end of the machine's power needs more. That takes
//! milliseconds, so one thread does it for all runs.

use std::fs::File;
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};

/// Files that wait at most. When there are more, one is left out; its next step comes soon.
const WAITING: usize = 256;

/// Asks for the file to be brought to the disk.
pub(crate) fn soon(file: &File) {
    if let (Some(thread), Ok(file)) = (thread(), file.try_clone()) {
        let _ = thread.try_send(file);
    }
}

fn thread() -> Option<&'static SyncSender<File>> {
    static THREAD: OnceLock<Option<SyncSender<File>>> = OnceLock::new();
    let start = || {
        let (sender, files) = sync_channel::<File>(WAITING);
        let work = move || {
            for file in files {
                let _ = file.sync_data();
            }
        };
        let thread = std::thread::Builder::new().name("runs".into());
        thread.spawn(work).ok().map(|_| sender)
    };
    THREAD.get_or_init(start).as_ref()
}

//! The thread that writes journals: no cell waits for a disk.

use super::book::Book;
use super::record::Record;
use cellblock_protocol::{Event, MimeBundle};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak, mpsc};
use std::thread;
use tokio::sync::{broadcast, oneshot};

/// Bytes of records that may wait to be written. A disk that falls behind by more loses the journal, not the session.
const MOST_WAITING: usize = 64 << 20;

/// Takes records from everywhere. One for the process, as long as somebody needs it.
#[derive(Debug)]
pub(super) struct Writer {
    messages: mpsc::Sender<Message>,
    waiting: Arc<AtomicUsize>,
}

/// Which journal.
pub(super) type Key = u64;

/// Whom to tell, once, that a journal stopped.
#[derive(Clone, Debug)]
pub(super) struct Listener {
    pub(super) session: String,
    pub(super) stopped: Arc<OnceLock<String>>,
    pub(super) logs: broadcast::Sender<Event>,
}

#[allow(dead_code, reason = "`Fork` is sent where sessions are forked")]
pub(super) enum Message {
    Open {
        key: Key,
        path: PathBuf,
        at: f64,
        opened: Record,
        listener: Listener,
    },
    Write {
        key: Key,
        at: f64,
        record: Record,
        weight: usize,
    },
    Fork {
        key: Key,
        from: Key,
        path: PathBuf,
        at: f64,
        forked: Record,
        listener: Listener,
    },
    Close {
        key: Key,
        at: f64,
        closed: Record,
        done: Option<oneshot::Sender<()>>,
    },
}

impl Writer {
    /// The writer of this process.
    pub(super) fn shared() -> Arc<Writer> {
        static SHARED: Mutex<Weak<Writer>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = shared.upgrade() {
            return writer;
        }
        let (messages, inbox) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let writer = Arc::new(Writer {
            messages,
            waiting: Arc::clone(&waiting),
        });
        *shared = Arc::downgrade(&writer);
        // Where no thread can be had, messages find no reader, and the senders are told.
        let _ = thread::Builder::new()
            .name("cellblock-journal".to_owned())
            .spawn(move || write_all(&inbox, &waiting));
        writer
    }

    /// A number that no other journal of this process has.
    pub(super) fn new_key() -> Key {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    /// Hands a record over; `false` when too much waits already, or nobody writes.
    pub(super) fn write(&self, key: Key, at: f64, record: Record) -> bool {
        let weight = weight(&record);
        if self.waiting.fetch_add(weight, Ordering::Relaxed) + weight > MOST_WAITING {
            self.waiting.fetch_sub(weight, Ordering::Relaxed);
            return false;
        }
        self.send(Message::Write {
            key,
            at,
            record,
            weight,
        })
    }

    /// Hands anything else over.
    pub(super) fn send(&self, message: Message) -> bool {
        self.messages.send(message).is_ok()
    }
}

fn write_all(inbox: &mpsc::Receiver<Message>, waiting: &AtomicUsize) {
    let mut books: HashMap<Key, (Book, Listener)> = HashMap::new();
    while let Ok(message) = inbox.recv() {
        match message {
            Message::Open {
                key,
                path,
                at,
                opened,
                listener,
            } => {
                books.insert(key, (Book::new(path, at, opened), listener));
            }
            Message::Write {
                key,
                at,
                record,
                weight,
            } => {
                if let Some((book, listener)) = books.get_mut(&key) {
                    listener.heed(book.write(at, record));
                }
                waiting.fetch_sub(weight, Ordering::Relaxed);
            }
            Message::Fork {
                key,
                from,
                path,
                at,
                forked,
                listener,
            } => {
                let Some((parent, _)) = books.get(&from) else {
                    listener.tell("the journal of the session that it was forked from had ended");
                    continue;
                };
                match parent.fork(path) {
                    Ok(mut book) => {
                        if let Some(reason) = book.given_up() {
                            listener.tell(reason);
                        }
                        listener.heed(book.write(at, forked));
                        books.insert(key, (book, listener));
                    }
                    Err(error) => {
                        listener.tell(&format!("it could not be made for a fork: {error}"))
                    }
                }
            }
            Message::Close {
                key,
                at,
                closed,
                done,
            } => {
                if let Some((book, _)) = books.remove(&key) {
                    book.close(at, closed);
                }
                if let Some(done) = done {
                    let _ = done.send(());
                }
            }
        }
    }
}

impl Listener {
    fn heed(&self, outcome: Result<(), String>) {
        if let Err(reason) = outcome {
            self.tell(&reason);
        }
    }

    /// Says it to whoever listens to the session, the first time.
    pub(super) fn tell(&self, reason: &str) {
        if self.stopped.set(reason.to_owned()).is_ok() {
            let text = format!(
                "the journal of session `{}` stopped: {reason}; the session goes on, but what comes now is not in its journal\n",
                self.session
            );
            let _ = self.logs.send(Event::Log { text });
        }
    }
}

/// About what a record takes in memory while it waits.
fn weight(record: &Record) -> usize {
    const LEAST: usize = 1024;
    LEAST
        + match record {
            Record::Begun { code, .. } => code.len(),
            Record::PutFile { contents, .. } => {
                contents.as_ref().map_or(0, |contents| contents.len())
            }
            Record::Ended(ended) => {
                let result = &ended.result;
                let bundles = result
                    .displays
                    .iter()
                    .chain(result.value.iter().map(|it| &it.mime));
                result.stdout.len()
                    + result.stderr.len()
                    + result.output.len()
                    + bundles.map(MimeBundle::bytes).sum::<usize>()
                    + super::notes::weight(ended)
            }
            Record::Seeded { variables } => {
                variables.values().map(super::bounds::weight).sum::<usize>()
            }
            _ => 0,
        }
}

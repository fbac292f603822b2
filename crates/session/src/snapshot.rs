//! A state of a session that is kept aside, for new sessions to begin with.

use crate::{Error, Session};
use tokio::sync::Mutex;

/// A state of a session that is kept aside: a fork in which no cell ever runs, and whose processes stand still.
///
/// Dropping a `Snapshot` forgets the state. Sessions that were opened from it go on.
///
/// ```
/// # cellblock_test_support::wait(async {
/// # let session = cellblock_test_support::open_session(Default::default()).await?;
/// session.run("x = [1]").await?;
/// let snapshot = session.freeze().await?;
/// session.run("x.append(2)").await?;
/// let fresh = snapshot.open().await?;
/// assert_eq!(fresh.run("x").await?.repr(), Some("[1]"));
/// # Ok::<(), cellblock_session::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Snapshot {
    /// The fork, which is resumed for a moment while another one is made from it.
    session: Mutex<Session>,
    id: String,
}

impl Session {
    /// Keeps the state as it is now aside, for new sessions to begin with. It counts as a fork of this session, and the limits of forks
    /// hold: 15 deep, 60 in a family.
    pub async fn freeze(&self) -> Result<Snapshot, Error> {
        let session = self.fork().await?;
        session.pause().await?;
        Ok(Snapshot {
            id: session.id().to_owned(),
            session: Mutex::new(session),
        })
    }
}

impl Snapshot {
    /// The id of the snapshot, which no session of this host has.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Makes a session that begins with this state: its variables, and its own copy of the files.
    pub async fn open(&self) -> Result<Session, Error> {
        let session = self.session.lock().await;
        session.resume().await?;
        let opened = session.fork().await;
        session.pause().await?;
        opened
    }

    /// Forgets the state, and waits until nothing of it is left.
    pub async fn discard(&self) {
        self.session.lock().await.close().await;
    }
}

//! Questions to a head that is running a cell: the strategy `thread` answers them on the way.

use crate::Error;
use cellblock_protocol::guest::Reply;
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Those who asked, by the number of their question.
#[derive(Debug, Default)]
pub(crate) struct PendingQueries {
    waiting: HashMap<u64, (Asker, Instant)>,
}

type Asker = oneshot::Sender<Result<Reply, Error>>;

impl PendingQueries {
    pub(crate) fn expect(&mut self, question: u64, asker: Asker, limit: Duration) {
        self.waiting
            .insert(question, (asker, Instant::now() + limit));
    }

    /// The head's answer to a question, or to none.
    pub(crate) fn answer(&mut self, reply: Reply) {
        if let Some((asker, _)) = self.waiting.remove(&reply.seq) {
            let _ = asker.send(Ok(reply));
        }
    }

    /// No query waits for ever.
    pub(crate) fn expire(&mut self) {
        let now = Instant::now();
        for (_, (asker, _)) in self.waiting.extract_if(|_, (_, deadline)| *deadline <= now) {
            let _ = asker.send(Err(Error::Refused(
                "the running cell left no time to answer".to_owned(),
            )));
        }
    }

    /// The head is gone, and with it whatever it would have said.
    pub(crate) fn give_up(&mut self) {
        for (_, (asker, _)) in self.waiting.drain() {
            let _ = asker.send(Err(Error::Refused(
                "the cell took its session down before it could answer".to_owned(),
            )));
        }
    }
}

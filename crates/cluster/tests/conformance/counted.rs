//! An engine that counts the requests to it.

use bytes::Bytes;
use cellblock_cluster::engine::{
    AppendError, ClaimError, Directory, DirectoryReader, Engine, EngineError, Epoch, Journals,
    Placed, Sequence, SessionEntry, Stored,
};
use cellblock_cluster::{BoxFuture, SessionId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// How often each method was called since the last look.
#[derive(Clone, Default)]
pub(crate) struct Counts(Arc<Mutex<BTreeMap<&'static str, usize>>>);

impl Counts {
    pub(crate) fn take(&self) -> BTreeMap<&'static str, usize> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn count(&self, what: &'static str) {
        *self.0.lock().unwrap().entry(what).or_default() += 1;
    }
}

/// The engine, with its directory of runs and its journals counted.
pub(crate) fn counted(engine: &Engine) -> (Engine, Counts) {
    let counts = Counts::default();
    let runs = Counted(Arc::clone(&engine.runs), counts.clone());
    let journals = Counted(Arc::clone(&engine.journals), counts.clone());
    let engine = Engine {
        runs: Arc::new(runs),
        journals: Arc::new(journals),
        ..engine.clone()
    };
    (engine, counts)
}

struct Counted<T: ?Sized>(Arc<T>, Counts);

impl Directory for Counted<dyn Directory> {
    fn claim<'a>(
        &'a self,
        session: &'a SessionId,
        seen: Option<Epoch>,
        entry: &'a SessionEntry,
    ) -> BoxFuture<'a, Result<Epoch, ClaimError>> {
        self.1.count("claim");
        self.0.claim(session, seen, entry)
    }

    fn get<'a>(
        &'a self,
        session: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<Placed>, EngineError>> {
        self.1.count("get");
        self.0.get(session)
    }

    fn remove<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), EngineError>> {
        self.1.count("remove");
        self.0.remove(session)
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<(SessionId, Placed)>, EngineError>> {
        self.1.count("list");
        self.0.list()
    }

    fn follow(&self) -> BoxFuture<'_, Result<Box<dyn DirectoryReader>, EngineError>> {
        self.1.count("follow");
        self.0.follow()
    }
}

impl Journals for Counted<dyn Journals> {
    fn append<'a>(
        &'a self,
        session: &'a SessionId,
        after: Sequence,
        record: Bytes,
    ) -> BoxFuture<'a, Result<Sequence, AppendError>> {
        self.1.count("append");
        self.0.append(session, after, record)
    }

    fn last<'a>(
        &'a self,
        session: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<Stored>, EngineError>> {
        self.1.count("last");
        self.0.last(session)
    }

    fn read<'a>(
        &'a self,
        session: &'a SessionId,
        until: Sequence,
    ) -> BoxFuture<'a, Result<Vec<Stored>, EngineError>> {
        self.1.count("read");
        self.0.read(session, until)
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SessionId>, EngineError>> {
        self.1.count("journals");
        self.0.list()
    }

    fn remove<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), EngineError>> {
        self.1.count("remove journal");
        self.0.remove(session)
    }
}

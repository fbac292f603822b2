//! An engine behind a bad network: every call may be delayed, lost on its way there or back, or done after its caller gave up.

use crate::executor::{Group, OUTSIDE};
use bytes::Bytes;
use cellblock_cluster::engine::{
    AppendError, ClaimError, Directory, DirectoryReader, Engine, EngineError, Epoch, Incoming,
    Journals, Members, NodeRecord, Placed, RequestError, Router, Sequence, SessionEntry, Stored,
    reply_channel,
};
use cellblock_cluster::{BoxFuture, NodeId, Runtime, SessionId, timeout};
use cellblock_test_support::Dice;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// How long a caller waits for the engine.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// How many requests wait for a node.
const MAX_QUEUED: usize = 4096;

/// A mistake that is made on purpose, to see that the checker of histories finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    None,
    /// Appends succeed whatever place they name.
    NoFence,
    /// Nodes believe that their lease lasts a day.
    LeaseIgnored,
    /// Appends are acknowledged before they are made.
    AnswerBeforeCommit,
}

/// The state of the network between the processes and the engine.
pub(crate) struct Network {
    pub(crate) base: Engine,
    /// The runtime of [`OUTSIDE`]: messages on their way outlive the process that sent them.
    runtime: Arc<dyn Runtime>,
    mutant: Mutant,
    state: Mutex<NetworkState>,
}

struct NetworkState {
    dice: Dice,
    cut_off: BTreeSet<Group>,
    is_down: bool,
    nodes: BTreeMap<NodeId, (Group, mpsc::Sender<Incoming>)>,
}

impl Network {
    pub(crate) fn new(
        base: Engine,
        runtime: Arc<dyn Runtime>,
        dice: Dice,
        mutant: Mutant,
    ) -> Arc<Self> {
        let state = NetworkState {
            dice,
            cut_off: BTreeSet::new(),
            is_down: false,
            nodes: BTreeMap::new(),
        };
        Arc::new(Network {
            base,
            runtime,
            mutant,
            state: Mutex::new(state),
        })
    }

    /// The engine as a process sees it.
    pub(crate) fn link(self: &Arc<Self>, group: Group, runtime: Arc<dyn Runtime>) -> Engine {
        let link = Arc::new(Link {
            network: Arc::clone(self),
            group,
            runtime,
        });
        Engine {
            directory: Arc::<Link>::clone(&link),
            members: Arc::<Link>::clone(&link),
            journals: Arc::<Link>::clone(&link),
            router: link,
            ..self.base.clone()
        }
    }

    pub(crate) fn cut_off(&self, group: Group) {
        self.state.lock().unwrap().cut_off.insert(group);
    }

    pub(crate) fn join_again(&self, group: Group) {
        self.state.lock().unwrap().cut_off.remove(&group);
    }

    pub(crate) fn set_down(&self, is_down: bool) {
        self.state.lock().unwrap().is_down = is_down;
    }

    fn is_reachable(&self, group: Group) -> bool {
        let state = self.state.lock().unwrap();
        !state.is_down && !state.cut_off.contains(&group)
    }

    /// How long a message takes, or `None` if it is lost.
    fn journey(&self) -> Option<Duration> {
        let dice = &mut self.state.lock().unwrap().dice;
        match dice.below(400) {
            0 => None,
            // Longer than its sender waits.
            1 => Some(REPLY_TIMEOUT + dice.pause(REPLY_TIMEOUT)),
            _ => Some(dice.pause(Duration::from_millis(4))),
        }
    }

    fn is_doubled(&self) -> bool {
        self.state.lock().unwrap().dice.one_in(200)
    }
}

/// The engine behind the network, as one process sees it.
struct Link {
    network: Arc<Network>,
    group: Group,
    runtime: Arc<dyn Runtime>,
}

impl Link {
    /// Has the engine do something. `None`: no answer came, and whether it is done is not known.
    async fn call<T: Send + 'static>(
        &self,
        act: impl FnOnce(Engine) -> BoxFuture<'static, T> + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let network = Arc::clone(&self.network);
        let group = self.group;
        self.network.runtime.spawn(Box::pin(async move {
            let Some(journey) = network.journey() else {
                return;
            };
            network.runtime.sleep(journey).await;
            if !network.is_reachable(group) {
                return;
            }
            let value = act(network.base.clone()).await;
            if let Some(journey) = network.journey() {
                network.runtime.sleep(journey).await;
                if network.is_reachable(group) {
                    let _ = answer.send(value);
                }
            }
        }));
        // A message that is lost leaves the channel without a sender. Its caller learns that by waiting, as on a network.
        let wait = async {
            match answered.await {
                Ok(value) => value,
                Err(_) => std::future::pending().await,
            }
        };
        timeout(&*self.runtime, REPLY_TIMEOUT, wait).await
    }

    async fn ask<T: Send + 'static>(
        &self,
        act: impl FnOnce(Engine) -> BoxFuture<'static, Result<T, EngineError>> + Send + 'static,
    ) -> Result<T, EngineError> {
        let answer = self.call(act).await;
        answer.unwrap_or_else(|| Err(EngineError("no answer".into())))
    }
}

impl Directory for Link {
    fn claim<'a>(
        &'a self,
        session: &'a SessionId,
        seen: Option<Epoch>,
        entry: &'a SessionEntry,
    ) -> BoxFuture<'a, Result<Epoch, ClaimError>> {
        let (session, entry) = (session.clone(), entry.clone());
        Box::pin(async move {
            let claimed = self.call(move |base| {
                Box::pin(async move { base.directory.claim(&session, seen, &entry).await })
            });
            let unknown = || Err(ClaimError::Unknown("no answer".into()));
            claimed.await.unwrap_or_else(unknown)
        })
    }

    fn get<'a>(
        &'a self,
        session: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<Placed>, EngineError>> {
        let session = session.clone();
        Box::pin(self.ask(|base| Box::pin(async move { base.directory.get(&session).await })))
    }

    fn remove<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), EngineError>> {
        let session = session.clone();
        Box::pin(self.ask(|base| Box::pin(async move { base.directory.remove(&session).await })))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<(SessionId, Placed)>, EngineError>> {
        Box::pin(self.ask(|base| Box::pin(async move { base.directory.list().await })))
    }

    fn follow(&self) -> BoxFuture<'_, Result<Box<dyn DirectoryReader>, EngineError>> {
        Box::pin(self.ask(|base| Box::pin(async move { base.directory.follow().await })))
    }
}

impl Members for Link {
    fn renew<'a>(&'a self, record: &'a NodeRecord) -> BoxFuture<'a, Result<Duration, EngineError>> {
        let record = record.clone();
        Box::pin(async move {
            let renewed =
                self.ask(|base| Box::pin(async move { base.members.renew(&record).await }));
            let lease = renewed.await?;
            let day = Duration::from_secs(24 * 60 * 60);
            let is_ignored = self.network.mutant == Mutant::LeaseIgnored;
            Ok(if is_ignored { day } else { lease })
        })
    }

    fn leave<'a>(&'a self, node: &'a NodeId) -> BoxFuture<'a, Result<(), EngineError>> {
        let node = node.clone();
        Box::pin(self.ask(|base| Box::pin(async move { base.members.leave(&node).await })))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<NodeRecord>, EngineError>> {
        Box::pin(self.ask(|base| Box::pin(async move { base.members.list().await })))
    }
}

impl Journals for Link {
    fn append<'a>(
        &'a self,
        session: &'a SessionId,
        after: Sequence,
        record: Bytes,
    ) -> BoxFuture<'a, Result<Sequence, AppendError>> {
        let session = session.clone();
        let mutant = self.network.mutant;
        let append = move |base: Engine| -> BoxFuture<'static, _> {
            Box::pin(async move {
                let mut place = after;
                if mutant == Mutant::NoFence {
                    let last = base.journals.last(&session).await;
                    place = last.unwrap().map_or(Sequence::START, |last| last.sequence);
                }
                base.journals.append(&session, place, record).await
            })
        };
        Box::pin(async move {
            if mutant == Mutant::AnswerBeforeCommit {
                let appended = append(self.network.base.clone());
                let network = Arc::clone(&self.network);
                self.network.runtime.spawn(Box::pin(async move {
                    if let Some(journey) = network.journey() {
                        network.runtime.sleep(journey).await;
                        let _ = appended.await;
                    }
                }));
                return Ok(Sequence(after.0 + 1));
            }
            let unknown = || Err(AppendError::Unknown("no answer".into()));
            self.call(append).await.unwrap_or_else(unknown)
        })
    }

    fn last<'a>(
        &'a self,
        session: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<Stored>, EngineError>> {
        let session = session.clone();
        Box::pin(self.ask(|base| Box::pin(async move { base.journals.last(&session).await })))
    }

    fn read<'a>(
        &'a self,
        session: &'a SessionId,
        until: Sequence,
    ) -> BoxFuture<'a, Result<Vec<Stored>, EngineError>> {
        let session = session.clone();
        Box::pin(
            self.ask(move |base| {
                Box::pin(async move { base.journals.read(&session, until).await })
            }),
        )
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SessionId>, EngineError>> {
        Box::pin(self.ask(|base| Box::pin(async move { base.journals.list().await })))
    }

    fn remove<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), EngineError>> {
        let session = session.clone();
        Box::pin(self.ask(|base| Box::pin(async move { base.journals.remove(&session).await })))
    }
}

impl Router for Link {
    fn request<'a>(
        &'a self,
        node: &'a NodeId,
        message: Bytes,
        time: Duration,
    ) -> BoxFuture<'a, Result<Bytes, RequestError>> {
        Box::pin(async move {
            let network = &self.network;
            let found = network.state.lock().unwrap().nodes.get(node).cloned();
            let (group, sender) = found.ok_or(RequestError::NoResponder)?;
            if sender.is_closed() && network.is_reachable(OUTSIDE) {
                return Err(RequestError::NoResponder);
            }
            let (incoming, reply) = reply_channel(message.clone());
            let mut deliveries = vec![incoming];
            if network.is_doubled() {
                deliveries.push(Incoming::new(message, |_| ()));
            }
            for incoming in deliveries {
                let (network, sender) = (Arc::clone(network), sender.clone());
                self.network.runtime.spawn(Box::pin(async move {
                    if let Some(journey) = network.journey() {
                        network.runtime.sleep(journey).await;
                        if network.is_reachable(group) {
                            let _ = sender.try_send(incoming);
                        }
                    }
                }));
            }
            let wait = async {
                match (reply.await, network.journey()) {
                    (Ok(reply), Some(journey)) => {
                        network.runtime.sleep(journey).await;
                        reply
                    }
                    _ => std::future::pending().await,
                }
            };
            let replied = timeout(&*self.runtime, time, wait).await;
            replied
                .filter(|_| network.is_reachable(group))
                .ok_or(RequestError::Silent)
        })
    }

    fn serve<'a>(
        &'a self,
        node: &'a NodeId,
    ) -> BoxFuture<'a, Result<mpsc::Receiver<Incoming>, EngineError>> {
        Box::pin(async move {
            let (sender, receiver) = mpsc::channel(MAX_QUEUED);
            let mut state = self.network.state.lock().unwrap();
            state.nodes.insert(node.clone(), (self.group, sender));
            Ok(receiver)
        })
    }
}

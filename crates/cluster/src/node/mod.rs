//! A node: it holds a lease, adopts sessions when asked, and runs their cells.

mod serving;

use crate::engine::{
    ClaimError, EngineError, Epoch, Incoming, NodeRecord, NodeState, SessionState,
};
use crate::lock::lock;
use crate::message::{Refusal, Reply, Request, encode};
use crate::names::{NodeId, RequestKey, SessionId};
use crate::owner::{AdoptError, Owner, OwnerServices};
use crate::runtime::timeout;
use serde_json::Value;
use serving::{Command, RunRequest};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// How long a request may wait for its session before the node says that the work goes on.
pub const REPLY_WITHIN: Duration = Duration::from_secs(1);

/// How many requests wait for one session. Further ones are refused.
pub const MAX_WAITING: usize = 16;

/// How long the sender of a request for a session that is being adopted is held up, so that it does not ask in a tight loop.
const ADOPTING_PAUSE: Duration = Duration::from_millis(50);

/// What a node is told when it starts.
#[derive(Clone)]
pub struct NodeOptions {
    /// The first heartbeat. The node updates the number of sessions and the state.
    pub record: NodeRecord,
    /// The time between heartbeats.
    pub heartbeat: Duration,
    /// Looks at the machine before each heartbeat, and notes what it sees. It must not take long.
    pub measure: Option<Measure>,
}

/// Notes in a node's record how its machine is.
pub type Measure = Arc<dyn Fn(&mut NodeRecord) + Send + Sync>;

/// A node. [`Node::serve`] runs it.
pub struct Node {
    surroundings: OwnerServices,
    heartbeat: Duration,
    measure: Option<Measure>,
    lease: Lease,
    record: Mutex<NodeRecord>,
    sessions: Mutex<Sessions>,
}

#[derive(Default)]
struct Sessions {
    owned: BTreeMap<SessionId, OwnedSession>,
    adopting: BTreeSet<SessionId>,
}

/// The way to the task that serves a session. Dropping it ends the task after the cell that runs.
struct OwnedSession {
    epoch: Epoch,
    commands: mpsc::Sender<Command>,
}

impl Node {
    /// A node that does not serve yet.
    pub fn new(surroundings: OwnerServices, options: NodeOptions) -> Arc<Node> {
        let mut record = options.record;
        record.heartbeat_ms = u64::try_from(options.heartbeat.as_millis()).unwrap_or(u64::MAX);
        Arc::new(Node {
            surroundings,
            heartbeat: options.heartbeat,
            measure: options.measure,
            lease: Lease::default(),
            record: Mutex::new(record),
            sessions: Mutex::default(),
        })
    }

    /// Serves requests until the engine ends the subscription.
    pub async fn serve(self: &Arc<Self>) -> Result<(), EngineError> {
        let id = self.id();
        let mut requests = self.surroundings.engine.router.serve(&id).await?;
        // The task ends with the node: it holds a weak handle.
        let node = Arc::downgrade(self);
        let runtime = Arc::clone(&self.surroundings.runtime);
        let pause = self.heartbeat;
        self.spawn(async move {
            while let Some(node) = node.upgrade() {
                node.renew_lease().await;
                drop(node);
                runtime.sleep(pause).await;
            }
        });
        while let Some(incoming) = requests.recv().await {
            self.take_request(incoming);
        }
        Ok(())
    }

    /// The node's id.
    pub fn id(&self) -> NodeId {
        lock(&self.record).node.clone()
    }

    /// Whether the node may start cells.
    pub fn has_lease(&self) -> bool {
        self.lease.is_valid(self.surroundings.runtime.now())
    }

    /// How many sessions the node owns.
    pub fn sessions(&self) -> usize {
        lock(&self.sessions).owned.len()
    }

    /// The epoch under which the node owns a session, if it does.
    pub fn epoch_of(&self, session: &SessionId) -> Option<Epoch> {
        let sessions = lock(&self.sessions);
        sessions.owned.get(session).map(|owned| owned.epoch)
    }

    /// Whether the node takes sessions.
    pub fn state(&self) -> NodeState {
        lock(&self.record).state
    }

    /// Takes a session whose directory entry has the epoch `seen`; `None` is for a new session, of which the directory will say `about`.
    pub async fn take(
        self: &Arc<Self>,
        session: &SessionId,
        seen: Option<Epoch>,
        about: Value,
    ) -> Result<Epoch, Refusal> {
        let reply = match self.begin_adopting(session, seen) {
            Err(reply) => reply,
            // A task of its own, so that a caller that goes away does not leave the session half taken.
            Ok(()) => {
                let outcome = self.adopt_in_task(session.clone(), seen, about);
                outcome.await.unwrap_or(Reply::Running)
            }
        };
        match reply {
            Reply::Adopted { epoch } => Ok(epoch),
            Reply::Refused { why } => Err(why),
            _ => Err(Refusal::Busy),
        }
    }

    /// Ends a session on this node once nothing runs in it: it sleeps, or is closed. Returns whether the node had it.
    pub async fn end(&self, session: &SessionId, state: SessionState) -> bool {
        let Some(commands) = self.commands_of(session) else {
            return false;
        };
        let (done, is_ended) = oneshot::channel();
        let sent = commands.send(Command::End(state, done)).await;
        drop(commands);
        sent.is_ok() && is_ended.await.is_ok()
    }

    /// Changes what the directory says about a session of this node.
    pub async fn describe(&self, session: &SessionId, about: Value) -> Result<(), ClaimError> {
        let (done, described) = oneshot::channel();
        if let Some(commands) = self.commands_of(session) {
            let _ = commands.send(Command::Describe(about, done)).await;
            if let Ok(described) = described.await {
                return described;
            }
        }
        Err(ClaimError::Lost)
    }

    fn commands_of(&self, session: &SessionId) -> Option<mpsc::Sender<Command>> {
        let sessions = lock(&self.sessions);
        let owned = sessions.owned.get(session);
        owned.map(|owned| owned.commands.clone())
    }

    /// Notes the epoch that an owner's change of its directory entry made.
    fn change_epoch(&self, session: &SessionId, before: Epoch, epoch: Epoch) {
        let mut sessions = lock(&self.sessions);
        if let Some(owned) = sessions.owned.get_mut(session)
            && owned.epoch == before
        {
            owned.epoch = epoch;
        }
    }

    /// Takes no new sessions from now on, or takes them again.
    pub fn set_state(&self, state: NodeState) {
        lock(&self.record).state = state;
    }

    /// Puts all sessions to sleep, each after its running cell, and takes no new ones. Any request starts a session on another node.
    pub async fn drain(self: &Arc<Self>) {
        self.set_state(NodeState::Draining);
        self.renew_lease().await;
        let owned: Vec<_> = {
            let sessions = lock(&self.sessions);
            let commands = |owned: &OwnedSession| owned.commands.clone();
            sessions.owned.values().map(commands).collect()
        };
        let mut asleep = Vec::new();
        for commands in owned {
            let (done, is_asleep) = oneshot::channel();
            let end = Command::End(SessionState::Asleep, done);
            if commands.send(end).await.is_ok() {
                asleep.push(is_asleep);
            }
        }
        for is_asleep in asleep {
            // An error means that the session's task ended by itself.
            let _ = is_asleep.await;
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.surroundings.runtime.spawn(Box::pin(task));
    }

    /// Renews the lease once.
    async fn renew_lease(self: &Arc<Self>) {
        let runtime = &self.surroundings.runtime;
        // Counted from before the request, so that this lease ends before the engine's.
        let sent = runtime.now();
        let mut record = lock(&self.record).clone();
        if let Some(measure) = &self.measure {
            measure(&mut record);
        }
        record.sessions = u32::try_from(self.sessions()).unwrap_or(u32::MAX);
        let members = &self.surroundings.engine.members;
        let renewed = timeout(&**runtime, self.heartbeat, members.renew(&record)).await;
        let Some(Ok(length)) = renewed else {
            return;
        };
        // While the lease was lapsed, other nodes may have taken sessions. The lease counts only after they are let go of.
        if self.has_lease() || self.let_go_of_moved_sessions().await.is_ok() {
            self.lease.extend(sent + length);
        }
    }

    async fn let_go_of_moved_sessions(&self) -> Result<(), EngineError> {
        if self.sessions() == 0 {
            return Ok(());
        }
        let placed = self.surroundings.engine.directory.list().await?;
        let epochs: BTreeMap<_, _> = placed
            .into_iter()
            .map(|(session, placed)| (session, placed.epoch))
            .collect();
        let is_ours = |session: &SessionId, owned: &mut OwnedSession| {
            epochs.get(session) == Some(&owned.epoch)
        };
        lock(&self.sessions).owned.retain(is_ours);
        Ok(())
    }

    fn take_request(self: &Arc<Self>, incoming: Incoming) {
        match serde_json::from_slice(&incoming.message) {
            Ok(Request::Run {
                session,
                epoch,
                key,
                cell,
            }) => self.pass_on(incoming, &session, epoch, key, cell),
            Ok(Request::Adopt { session, seen }) => self.adopt(incoming, session, seen),
            Ok(Request::Release { session, epoch }) => {
                let reply = self.let_go(session, epoch);
                incoming.reply(encode(&reply));
            }
            Ok(Request::SetState { state }) => {
                let node = Arc::clone(self);
                self.spawn(async move {
                    node.set_state(state);
                    node.renew_lease().await;
                    incoming.reply(encode(&Reply::Done));
                    if state == NodeState::Draining {
                        node.drain().await;
                    }
                });
            }
            Ok(Request::Ping) => incoming.reply(encode(&Reply::Done)),
            Err(error) => {
                let message = format!("the request is not understood: {error}");
                refuse(incoming, Refusal::Failed { message });
            }
        }
    }

    /// Begins to put a session to sleep. A node that the directory names need not have the session: its claim was made and the engine
    /// failed then, or the entry could not be changed when the session was put to sleep.
    fn let_go(self: &Arc<Self>, session: SessionId, epoch: Epoch) -> Reply {
        let owned = {
            let sessions = lock(&self.sessions);
            if sessions.adopting.contains(&session) {
                return Reply::Running;
            }
            sessions.owned.get(&session).map(|owned| owned.epoch)
        };
        match owned {
            Some(owned) if owned == epoch => {
                let node = Arc::clone(self);
                self.spawn(async move {
                    node.end(&session, SessionState::Asleep).await;
                });
                Reply::Done
            }
            Some(_) => refused(Refusal::Epoch),
            None => refused(Refusal::Moved),
        }
    }

    /// Passes a request on to the task of its session.
    fn pass_on(
        self: &Arc<Self>,
        incoming: Incoming,
        session: &SessionId,
        epoch: Epoch,
        key: RequestKey,
        cell: Value,
    ) {
        let mut sessions = lock(&self.sessions);
        if sessions.adopting.contains(session) {
            return self.reply_later(incoming, Reply::Running);
        }
        let Some(owned) = sessions.owned.get(session) else {
            return refuse(incoming, Refusal::Moved);
        };
        if epoch > owned.epoch {
            // The sender knows a newer owner.
            sessions.owned.remove(session);
            return refuse(incoming, Refusal::Moved);
        }
        if epoch < owned.epoch {
            return refuse(incoming, Refusal::Epoch);
        }
        let command = Command::Run(RunRequest {
            incoming,
            key,
            cell,
        });
        let refused = match owned.commands.try_send(command) {
            Ok(()) => return,
            Err(mpsc::error::TrySendError::Full(command)) => (command, Refusal::Busy),
            Err(mpsc::error::TrySendError::Closed(command)) => (command, Refusal::Moved),
        };
        if let (Command::Run(request), why) = refused {
            refuse(request.incoming, why);
        }
    }

    fn adopt(self: &Arc<Self>, incoming: Incoming, session: SessionId, seen: Option<Epoch>) {
        match self.begin_adopting(&session, seen) {
            Ok(()) => {}
            Err(Reply::Running) => return self.reply_later(incoming, Reply::Running),
            Err(reply) => return incoming.reply(encode(&reply)),
        }
        let outcome = self.adopt_in_task(session, seen, Value::Null);
        let runtime = Arc::clone(&self.surroundings.runtime);
        self.spawn(async move {
            let reply = timeout(&*runtime, REPLY_WITHIN, outcome).await;
            incoming.reply(encode(&match reply {
                Some(Ok(reply)) => reply,
                Some(Err(_)) | None => Reply::Running,
            }));
        });
    }

    /// Keeps a place for a session. The reply says why that is not needed or not possible.
    fn begin_adopting(&self, session: &SessionId, seen: Option<Epoch>) -> Result<(), Reply> {
        if !self.has_lease() {
            return Err(refused(Refusal::Lease));
        }
        let record = lock(&self.record);
        let mut sessions = lock(&self.sessions);
        if sessions.adopting.contains(session) {
            return Err(Reply::Running);
        }
        if let Some(owned) = sessions.owned.get(session)
            && Some(owned.epoch) > seen
        {
            let epoch = owned.epoch;
            return Err(Reply::Adopted { epoch });
        }
        let taken = sessions.owned.len() + sessions.adopting.len();
        if record.state != NodeState::Ready || taken >= record.capacity as usize {
            return Err(refused(Refusal::Full));
        }
        // What the node has of an older epoch is worthless.
        sessions.owned.remove(session);
        sessions.adopting.insert(session.clone());
        Ok(())
    }

    fn adopt_in_task(
        self: &Arc<Self>,
        session: SessionId,
        seen: Option<Epoch>,
        about: Value,
    ) -> oneshot::Receiver<Reply> {
        let (done, outcome) = oneshot::channel();
        let node = Arc::clone(self);
        self.spawn(async move {
            let reply = node.become_owner(&session, seen, about).await;
            lock(&node.sessions).adopting.remove(&session);
            let _ = done.send(reply);
        });
        outcome
    }

    async fn become_owner(
        self: &Arc<Self>,
        session: &SessionId,
        seen: Option<Epoch>,
        about: Value,
    ) -> Reply {
        let surroundings = self.surroundings.clone();
        let owner = match Owner::adopt(surroundings, &self.id(), session, seen, about).await {
            Ok(owner) => owner,
            Err(AdoptError::Lost) => return refused(Refusal::Moved),
            // The next attempt may find the engine again.
            Err(AdoptError::Engine(_)) => return Reply::Running,
            Err(error @ (AdoptError::Damaged(_) | AdoptError::Interpreter(_))) => {
                let message = error.to_string();
                return refused(Refusal::Failed { message });
            }
        };
        let epoch = owner.epoch();
        let (commands, receiver) = mpsc::channel(MAX_WAITING);
        let owned = OwnedSession { epoch, commands };
        lock(&self.sessions).owned.insert(session.clone(), owned);
        let node = Arc::clone(self);
        self.spawn(async move { serving::serve_session(&node, owner, receiver).await });
        Reply::Adopted { epoch }
    }

    /// Forgets a session, unless the node has adopted it again meanwhile.
    fn forget(&self, session: &SessionId, epoch: Epoch) {
        let mut sessions = lock(&self.sessions);
        if sessions
            .owned
            .get(session)
            .is_some_and(|owned| owned.epoch == epoch)
        {
            sessions.owned.remove(session);
        }
    }

    fn reply_later(&self, incoming: Incoming, reply: Reply) {
        let pause = self.surroundings.runtime.sleep(ADOPTING_PAUSE);
        self.spawn(async move {
            pause.await;
            incoming.reply(encode(&reply));
        });
    }
}

fn refused(why: Refusal) -> Reply {
    Reply::Refused { why }
}

fn refuse(incoming: Incoming, why: Refusal) {
    incoming.reply(encode(&refused(why)));
}

/// A node's own view of its lease.
#[derive(Debug, Default)]
struct Lease {
    until: Mutex<Duration>,
}

impl Lease {
    /// Whether the lease covers the time `now`.
    fn is_valid(&self, now: Duration) -> bool {
        now < *lock(&self.until)
    }

    /// Extends the lease.
    fn extend(&self, until: Duration) {
        let mut current = lock(&self.until);
        *current = until.max(*current);
    }
}

//! The kernels of the server's users.

use crate::auth::Caller;
use crate::error::ApiError;
use crate::sessions::NewSession;
use crate::state::AppState;
use cellblock_host::Session;
use cellblock_jupyter::{
    Channel, Kernel, KernelAbout, Message, Outgoing, SessionOpener, fresh_id, outgoing_queues,
};
use cellblock_protocol::{SessionOptions, Shell};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// The name of the kernel in kernelspecs.
pub(super) const KERNEL_NAME: &str = "cellblock";
/// The messages that wait for a slow client.
const MAX_WAITING_MESSAGES: usize = 256;
/// A client that takes nothing for this time is disconnected, so that it does not hold others up.
const SLOW_CLIENT_LIMIT: Duration = Duration::from_secs(10);

/// All kernels.
#[derive(Default)]
pub(crate) struct Kernels {
    by_id: Mutex<BTreeMap<String, Arc<ServedKernel>>>,
}

/// A kernel with the clients that are connected to it.
pub(super) struct ServedKernel {
    pub(super) id: String,
    caller: Caller,
    kernel: Mutex<Kernel>,
    clients: Arc<Clients>,
    opener: Arc<UserSessions>,
    activity: Arc<Mutex<Activity>>,
}

/// What is told of a kernel.
#[derive(Clone)]
struct Activity {
    last: String,
    state: String,
}

/// The clients of one kernel, by their numbers.
#[derive(Default)]
pub(super) struct Clients {
    next: AtomicU64,
    senders: Mutex<HashMap<u64, mpsc::Sender<Outgoing>>>,
}

impl Kernels {
    /// Starts a kernel for a user. Its session counts against the user's limits.
    pub(super) async fn start(
        &self,
        state: &AppState,
        caller: Caller,
    ) -> Result<Arc<ServedKernel>, ApiError> {
        let opener = Arc::new(UserSessions {
            state: state.clone(),
            caller: caller.clone(),
            first: tokio::sync::Mutex::default(),
            sessions: Mutex::default(),
        });
        // At once, so that the request is refused where the user may open no more sessions.
        let first = opener.open_session().await?;
        *opener.first.lock().await = Some(first);
        let clients = Arc::<Clients>::default();
        let activity = Arc::new(Mutex::new(Activity {
            last: timestamp(),
            state: "starting".to_owned(),
        }));
        let kernel = start_kernel(state, &opener, &clients, &activity);
        let id = uuid_of(&fresh_id());
        let served = Arc::new(ServedKernel {
            id: id.clone(),
            caller,
            kernel: Mutex::new(kernel),
            clients,
            opener,
            activity,
        });
        lock(&self.by_id).insert(id, Arc::clone(&served));
        Ok(served)
    }

    /// A kernel of this user.
    pub(super) fn get(&self, user: &str, id: &str) -> Result<Arc<ServedKernel>, ApiError> {
        let found = lock(&self.by_id).get(id).cloned();
        found
            .filter(|kernel| kernel.caller.id() == user)
            .ok_or_else(|| ApiError::not_found("kernel"))
    }

    /// The kernels of a user.
    pub(super) fn of_user(&self, user: &str) -> Vec<Arc<ServedKernel>> {
        let by_id = lock(&self.by_id);
        let kernels = by_id.values();
        kernels
            .filter(|kernel| kernel.caller.id() == user)
            .cloned()
            .collect()
    }

    /// Ends all kernels of a user.
    pub(crate) async fn remove_of_user(&self, state: &AppState, user: &str) {
        for kernel in self.of_user(user) {
            self.remove(state, &kernel.id).await;
        }
    }

    /// Ends a kernel, its session and the connections of its clients.
    pub(super) async fn remove(&self, state: &AppState, id: &str) {
        let removed = lock(&self.by_id).remove(id);
        if let Some(kernel) = removed {
            kernel.end(state).await;
            kernel.clients.disconnect_all();
        }
    }
}

impl ServedKernel {
    /// The kernel as the REST interface tells it.
    pub(super) fn model(&self) -> Value {
        let activity = lock(&self.activity).clone();
        json!({
            "id": self.id,
            "name": KERNEL_NAME,
            "last_activity": activity.last,
            "execution_state": activity.state,
            "connections": lock(&self.clients.senders).len(),
        })
    }

    pub(super) fn interrupt(&self) {
        lock(&self.kernel).interrupt();
    }

    /// Begins anew with a fresh session. Clients stay connected.
    pub(super) async fn restart(&self, state: &AppState) {
        self.end(state).await;
        let kernel = start_kernel(state, &self.opener, &self.clients, &self.activity);
        *lock(&self.kernel) = kernel;
    }

    async fn end(&self, state: &AppState) {
        let kernel = lock(&self.kernel).clone();
        kernel.close().await;
        let sessions = std::mem::take(&mut *lock(&self.opener.sessions));
        for id in sessions {
            let _ = state.close_session(&id).await;
        }
    }

    /// Hands the message of a client to the kernel.
    pub(super) async fn receive(&self, channel: Channel, message: Message) {
        let kernel = lock(&self.kernel).clone();
        kernel.receive(channel, message).await;
    }

    /// Adds a client. Its messages come out of the queue until it is removed.
    pub(super) fn connect(&self) -> (u64, mpsc::Receiver<Outgoing>) {
        let number = self.clients.next.fetch_add(1, Ordering::Relaxed);
        let (sender, messages) = mpsc::channel(MAX_WAITING_MESSAGES);
        lock(&self.clients.senders).insert(number, sender);
        (number, messages)
    }

    pub(super) fn disconnect(&self, client: u64) {
        lock(&self.clients.senders).remove(&client);
    }
}

impl Clients {
    /// Brings a message to the client that its identity names, or to all.
    async fn send(&self, outgoing: Outgoing) {
        let identity = outgoing.message.identities.first();
        let one = identity.and_then(|identity| std::str::from_utf8(identity).ok()?.parse().ok());
        let receivers: Vec<(u64, mpsc::Sender<Outgoing>)> = lock(&self.senders)
            .iter()
            .filter(|(number, _)| outgoing.channel == Channel::Iopub || one == Some(**number))
            .map(|(number, sender)| (*number, sender.clone()))
            .collect();
        for (number, sender) in receivers {
            let sent = sender.send_timeout(outgoing.clone(), SLOW_CLIENT_LIMIT);
            if sent.await.is_err() {
                lock(&self.senders).remove(&number);
            }
        }
    }

    fn disconnect_all(&self) {
        lock(&self.senders).clear();
    }
}

fn start_kernel(
    state: &AppState,
    opener: &Arc<UserSessions>,
    clients: &Arc<Clients>,
    activity: &Arc<Mutex<Activity>>,
) -> Kernel {
    let (queues, mut ordered, mut control) = outgoing_queues();
    let interpreter = &state.host().environment().interpreter;
    let about = KernelAbout {
        python_version: interpreter.version.to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ports: None,
        // The session's own hints name the options of the server's API.
        advice: |_| None,
    };
    let kernel = Kernel::start(Arc::clone(opener) as Arc<dyn SessionOpener>, about, queues);
    let replies = Arc::clone(clients);
    tokio::spawn(async move {
        while let Some(outgoing) = control.recv().await {
            replies.send(outgoing).await;
        }
    });
    let (clients, activity) = (Arc::clone(clients), Arc::clone(activity));
    tokio::spawn(async move {
        while let Some(outgoing) = ordered.recv().await {
            note(&activity, &outgoing.message);
            clients.send(outgoing).await;
        }
    });
    kernel
}

fn note(activity: &Mutex<Activity>, message: &Message) {
    let mut activity = lock(activity);
    activity.last = timestamp();
    if message.kind() == "status"
        && let Some(state) = message.content["execution_state"].as_str()
    {
        state.clone_into(&mut activity.state);
    }
}

/// Opens the sessions of a kernel for its user.
struct UserSessions {
    state: AppState,
    caller: Caller,
    /// The session that was opened before the kernel was there.
    first: tokio::sync::Mutex<Option<Session>>,
    /// The ids of all sessions, to close them.
    sessions: Mutex<Vec<String>>,
}

impl UserSessions {
    async fn open_session(&self) -> Result<Session, ApiError> {
        let new = NewSession {
            title: Some("Jupyter kernel".to_owned()),
            options: SessionOptions {
                shell: Shell::Ipython,
                ..SessionOptions::default()
            },
            chat: None,
        };
        let live = self.state.open_session(&self.caller, new).await?;
        lock(&self.sessions).push(live.id.clone());
        Ok(live.session.clone())
    }
}

impl SessionOpener for UserSessions {
    fn open(&self) -> Pin<Box<dyn Future<Output = Result<Session, String>> + Send + '_>> {
        Box::pin(async {
            if let Some(first) = self.first.lock().await.take() {
                return Ok(first);
            }
            let opened = self.open_session().await;
            opened.map_err(|error| error.message)
        })
    }
}

/// Thirty-two hexadecimal digits as clients expect an id: `8-4-4-4-12`.
fn uuid_of(digits: &str) -> String {
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
    parts.map(|part| &digits[part]).join("-")
}

fn timestamp() -> String {
    cellblock_jupyter::now()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

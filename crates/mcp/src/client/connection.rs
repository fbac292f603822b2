//! The connection to a server: a server that ends is started again.

use super::connect::{StartedServer, start_server};
use super::message_budget::MessageBudget;
use super::program::StdoutMonitor;
use super::{Offer, RemoteServer, ServerProblem, connect};
use cellblock_tools::ToolError;
use rmcp::{Peer, RoleClient, ServiceError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The first pause before a server is started again, and the longest; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// A server that ran for this long is started again after the first pause.
const STABLE_AFTER: Duration = Duration::from_secs(60);
/// How long a connection may take to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// A server that is kept running. Dropping this ends it.
pub(super) struct ServerConnection {
    server: RemoteServer,
    state: watch::Receiver<ConnectionState>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// Whether the server can be called.
#[derive(Clone)]
enum ConnectionState {
    Starting,
    Up(OpenConnection),
    Down { why: String, again: Instant },
}

/// An open connection.
#[derive(Clone)]
pub(super) struct OpenConnection {
    pub(super) peer: Peer<RoleClient>,
    monitor: Arc<StdoutMonitor>,
    budget: Arc<MessageBudget>,
}

impl ServerConnection {
    /// Starts the server, and waits for the list of its tools.
    pub(super) async fn start(
        server: RemoteServer,
    ) -> Result<(Arc<ServerConnection>, Offer), ServerProblem> {
        let name = server.name.clone();
        let (state_sender, state) = watch::channel(ConnectionState::Starting);
        let (first, started) = oneshot::channel();
        let connection = Arc::new(ServerConnection {
            server: server.clone(),
            state,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        let stop = connection.stop.clone();
        connection
            .tasks
            .spawn(supervise(server, state_sender, first, stop));
        connection.tasks.close();
        let message = match started.await {
            Ok(Ok(offer)) => return Ok((connection, offer)),
            Ok(Err(why)) => why,
            Err(_) => "it was stopped while it started".to_owned(),
        };
        Err(ServerProblem {
            server: name,
            message,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.server.name
    }

    pub(super) fn server(&self) -> &RemoteServer {
        &self.server
    }

    /// Ends the server, and waits for its end.
    pub(super) async fn close(&self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }

    /// Sends a request. Every error names the server.
    pub(super) async fn ask<T, F>(
        &self,
        request: impl FnOnce(Peer<RoleClient>) -> F,
    ) -> Result<T, ToolError>
    where
        F: Future<Output = Result<T, ServiceError>>,
    {
        let open = self.open().await?;
        let answered = tokio::select! {
            biased;
            problem = open.monitor.left_out() => return Err(self.problem(&problem.to_string())),
            answered = request(open.peer.clone()) => answered,
            () = open.budget.ended() => Err(ServiceError::TransportClosed),
        };
        let error = match answered {
            Ok(answer) => return Ok(answer),
            Err(error) => connect::request_error(error),
        };
        Err(match (open.budget.reason(), error) {
            (Some(reason), _) => self.problem(reason),
            (None, Some(why)) => self.problem(&why),
            (None, None) => self.lost_error().await,
        })
    }

    /// An error that names this server.
    pub(super) fn problem(&self, why: &str) -> ToolError {
        ToolError::new(format!("the MCP server `{}`: {why}", self.server.name))
    }

    async fn open(&self) -> Result<OpenConnection, ToolError> {
        let mut state = self.state.clone();
        let waited = timeout(
            self.server.start_limit,
            state.wait_for(|state| !matches!(state, ConnectionState::Starting)),
        );
        let state = match waited.await {
            Ok(Ok(state)) => state.clone(),
            _ => return Err(self.problem("it is not there yet; try again later")),
        };
        match state {
            ConnectionState::Up(open) => Ok(open),
            ConnectionState::Down { why, again } => {
                let left = again.saturating_duration_since(Instant::now());
                Err(self.problem(&format!(
                    "it is not there: {why}; it is started again in {:.1} s",
                    left.as_secs_f64()
                )))
            }
            ConnectionState::Starting => Err(self.problem("it is not there yet; try again later")),
        }
    }

    /// The error of a call whose server ended, with the reason if that is known soon.
    async fn lost_error(&self) -> ToolError {
        let mut state = self.state.clone();
        let down = timeout(
            SHUTDOWN_TIMEOUT,
            state.wait_for(|state| !matches!(state, ConnectionState::Up(_))),
        );
        let why = match down.await {
            Ok(Ok(state)) => match &*state {
                ConnectionState::Down { why, .. } => why.clone(),
                _ => String::new(),
            },
            _ => String::new(),
        };
        let why = match why.as_str() {
            "" => "it vanished in the middle of the call".to_owned(),
            why => format!("it vanished in the middle of the call: {why}"),
        };
        self.problem(&why)
    }
}

impl Drop for ServerConnection {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Starts a server, and starts it again when it ends, until `stop` is cancelled.
async fn supervise(
    server: RemoteServer,
    state_sender: watch::Sender<ConnectionState>,
    first: oneshot::Sender<Result<Offer, String>>,
    stop: CancellationToken,
) {
    let mut pause = FIRST_PAUSE;
    let mut first = Some(first);
    loop {
        let started = tokio::select! {
            started = start_server(&server) => started,
            () = stop.cancelled() => return,
        };
        let why = match started {
            Ok(StartedServer {
                running,
                program,
                monitor,
                budget,
                connected,
                offer,
            }) => {
                let begun = Instant::now();
                state_sender.send_replace(ConnectionState::Up(OpenConnection {
                    peer: running.peer().clone(),
                    monitor: Arc::clone(&monitor),
                    budget: Arc::clone(&budget),
                }));
                if let Some(first) = first.take() {
                    let _ = first.send(Ok(offer));
                }
                let cancellation = running.cancellation_token();
                let mut running_to_end = std::pin::pin!(running.waiting());
                let stopped = tokio::select! {
                    _ = &mut running_to_end => false,
                    () = budget.ended() => false,
                    () = stop.cancelled() => true,
                };
                if stopped {
                    cancellation.cancel();
                    let _ = timeout(SHUTDOWN_TIMEOUT, running_to_end).await;
                }
                // Whatever still waits for the server would keep the connection open.
                drop(connected);
                let mut why = match program {
                    Some(program) => program.end().await,
                    None => "the connection ended".to_owned(),
                };
                if stopped {
                    return;
                }
                if let Some(reason) = budget.reason() {
                    why = format!("{reason}; {why}");
                }
                if let Some(stray) = monitor.stray() {
                    why.push_str(&format!("; on its standard output it wrote: {stray}"));
                }
                if begun.elapsed() > STABLE_AFTER {
                    pause = FIRST_PAUSE;
                }
                why
            }
            Err(why) => match first.take() {
                // Its tools are unknown, so it can never be called.
                Some(first) => {
                    let _ = first.send(Err(why));
                    return;
                }
                None => why,
            },
        };
        state_sender.send_replace(ConnectionState::Down {
            why,
            again: Instant::now() + pause,
        });
        tokio::select! {
            () = sleep(pause) => {}
            () = stop.cancelled() => return,
        }
        pause = (pause * 2).min(MAX_PAUSE);
        state_sender.send_replace(ConnectionState::Starting);
    }
}

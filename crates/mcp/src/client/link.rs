//! The way to a server that may die and come back.

use super::arrival::{Arrival, arrive};
use super::stdout_monitor::StdoutMonitor;
use super::{Offer, Problem, RemoteServer, words};
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
/// After so long a server that dies again begins with the first pause.
const STEADY: Duration = Duration::from_secs(60);
/// How long a connection may take to end.
const FAREWELL: Duration = Duration::from_secs(3);

/// A server, as its tools see it.
pub(super) struct Link {
    server: RemoteServer,
    state: watch::Receiver<State>,
    stop: CancellationToken,
    keeping: TaskTracker,
}

/// Whether it is there.
#[derive(Clone)]
enum State {
    Starting,
    Up(Line),
    Down { why: String, again: Instant },
}

/// An open connection.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) peer: Peer<RoleClient>,
    monitor: Arc<StdoutMonitor>,
}

impl Link {
    /// Starts it, and waits for what it offers.
    pub(super) async fn start(server: RemoteServer) -> Result<(Arc<Link>, Offer), Problem> {
        let name = server.name.clone();
        let (told, state) = watch::channel(State::Starting);
        let (first, arrived) = oneshot::channel();
        let link = Arc::new(Link {
            server: server.clone(),
            state,
            stop: CancellationToken::new(),
            keeping: TaskTracker::new(),
        });
        let stop = link.stop.clone();
        link.keeping.spawn(keep(server, told, first, stop));
        link.keeping.close();
        let message = match arrived.await {
            Ok(Ok(offer)) => return Ok((link, offer)),
            Ok(Err(why)) => why,
            Err(_) => "it was stopped while it started".to_owned(),
        };
        Err(Problem {
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

    /// Ends it.
    pub(super) async fn close(&self) {
        self.stop.cancel();
        self.keeping.wait().await;
    }

    /// Asks it something. Whatever goes wrong, the message names the server.
    pub(super) async fn ask<T, F>(
        &self,
        request: impl FnOnce(Peer<RoleClient>) -> F,
    ) -> Result<T, ToolError>
    where
        F: Future<Output = Result<T, ServiceError>>,
    {
        let line = self.line().await?;
        let answered = tokio::select! {
            answered = request(line.peer.clone()) => answered,
            () = line.monitor.too_long() => {
                return Err(self.problem("it sent a message that is longer than 48 MiB, which was left out"));
            }
        };
        match answered.map_err(words::no_answer) {
            Ok(answer) => Ok(answer),
            Err(Some(why)) => Err(self.problem(&why)),
            Err(None) => Err(self.vanished().await),
        }
    }

    /// An error that names this server.
    pub(super) fn problem(&self, why: &str) -> ToolError {
        ToolError::new(format!("the MCP server `{}`: {why}", self.server.name))
    }

    async fn line(&self) -> Result<Line, ToolError> {
        let mut state = self.state.clone();
        let waited = timeout(
            self.server.start_limit,
            state.wait_for(|state| !matches!(state, State::Starting)),
        );
        let state = match waited.await {
            Ok(Ok(state)) => state.clone(),
            _ => return Err(self.problem("it is not there yet; try again later")),
        };
        match state {
            State::Up(line) => Ok(line),
            State::Down { why, again } => {
                let left = again.saturating_duration_since(Instant::now());
                Err(self.problem(&format!(
                    "it is not there: {why}; it is started again in {:.1} s",
                    left.as_secs_f64()
                )))
            }
            State::Starting => Err(self.problem("it is not there yet; try again later")),
        }
    }

    /// It went in the middle of a call: says why, when that is known soon.
    async fn vanished(&self) -> ToolError {
        let mut state = self.state.clone();
        let down = timeout(
            FAREWELL,
            state.wait_for(|state| !matches!(state, State::Up(_))),
        );
        let why = match down.await {
            Ok(Ok(state)) => match &*state {
                State::Down { why, .. } => why.clone(),
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

impl Drop for Link {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Keeps a server running for as long as somebody may call it.
async fn keep(
    server: RemoteServer,
    told: watch::Sender<State>,
    first: oneshot::Sender<Result<Offer, String>>,
    stop: CancellationToken,
) {
    let mut pause = FIRST_PAUSE;
    let mut first = Some(first);
    loop {
        let arrived = tokio::select! {
            arrived = arrive(&server) => arrived,
            () = stop.cancelled() => return,
        };
        let why = match arrived {
            Ok(Arrival {
                running,
                program,
                monitor,
                offer,
            }) => {
                let begun = Instant::now();
                told.send_replace(State::Up(Line {
                    peer: running.peer().clone(),
                    monitor: Arc::clone(&monitor),
                }));
                if let Some(first) = first.take() {
                    let _ = first.send(Ok(offer));
                }
                let hang_up = running.cancellation_token();
                let mut talking = std::pin::pin!(running.waiting());
                let stopped = tokio::select! {
                    _ = &mut talking => false,
                    () = stop.cancelled() => true,
                };
                if stopped {
                    hang_up.cancel();
                    let _ = timeout(FAREWELL, talking).await;
                }
                let mut why = match program {
                    Some(program) => program.end().await,
                    None => "the connection ended".to_owned(),
                };
                if stopped {
                    return;
                }
                if let Some(stray) = monitor.stray() {
                    why.push_str(&format!("; on its standard output it wrote: {stray}"));
                }
                if begun.elapsed() > STEADY {
                    pause = FIRST_PAUSE;
                }
                why
            }
            Err(why) => match first.take() {
                // Nobody knows its tools, so nobody will ever call it.
                Some(first) => {
                    let _ = first.send(Err(why));
                    return;
                }
                None => why,
            },
        };
        told.send_replace(State::Down {
            why,
            again: Instant::now() + pause,
        });
        tokio::select! {
            () = sleep(pause) => {}
            () = stop.cancelled() => return,
        }
        pause = (pause * 2).min(MAX_PAUSE);
        told.send_replace(State::Starting);
    }
}

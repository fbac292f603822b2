//! Cellblock as a server: the tools of a registry, and a session for each client.

mod client_handler;
mod client_sessions;
mod connections;
mod content;
mod files;
mod gate;
mod http;
mod live;
mod presence;
mod shown;
mod stdio;
mod tools;
mod words;

use cellblock_tools::ToolRunner;
use client_handler::ClientHandler;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use http::HttpOptions;
pub use tools::{ForkTool, VariablesTool, WriteFileTool, with_tools_for_clients};

/// Clients that are served at the same time; each may hold sessions.
const MAX_CLIENTS: usize = 64;

/// How long sessions may take to end.
const FAREWELL: Duration = Duration::from_secs(10);

/// Serves MCP clients. Every client has a tool runner of its own, which ends with it. A handle: clones are the same server.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

/// What is in a workspace before the first call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// Nothing: clients that only look need no session.
    None,
    /// Files of the user's, which clients may want to see first.
    Given,
}

struct Inner {
    files: Files,
    runner: Box<dyn Fn() -> ToolRunner + Send + Sync>,
    clients: AtomicUsize,
    /// Clients that are here, and sessions that are being ended.
    closing: TaskTracker,
    stop: CancellationToken,
}

impl Server {
    /// A server whose clients get their tool runners from here.
    pub fn new(files: Files, runner: impl Fn() -> ToolRunner + Send + Sync + 'static) -> Server {
        Server {
            inner: Arc::new(Inner {
                files,
                runner: Box::new(runner),
                clients: AtomicUsize::new(0),
                closing: TaskTracker::new(),
                stop: CancellationToken::new(),
            }),
        }
    }

    /// Stops serving: running calls are cancelled, sessions end. Whoever serves returns soon.
    pub fn stop(&self) {
        self.inner.stop.cancel();
    }

    /// Waits until the last client is gone, and everything that ran for it.
    async fn wait_for_sessions(&self) {
        self.inner.closing.close();
        let _ = tokio::time::timeout(FAREWELL, self.inner.closing.wait()).await;
    }

    /// A client has come.
    fn admit(&self) -> Result<ClientHandler, String> {
        let admitted =
            self.inner
                .clients
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |clients| {
                    (clients < MAX_CLIENTS).then_some(clients + 1)
                });
        if admitted.is_err() {
            return Err(format!(
                "{MAX_CLIENTS} clients are being served, and no more are possible"
            ));
        }
        Ok(ClientHandler::new((self.inner.runner)(), self.clone()))
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Server")
            .field("clients", &self.inner.clients)
            .finish_non_exhaustive()
    }
}

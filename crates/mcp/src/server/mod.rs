//! Cellblock as an MCP server: it offers the tools of a registry, and each client has a session.

mod bounded_messages;
mod bounded_requests;
mod call_output;
mod client_handler;
mod client_sessions;
mod http;
mod quota;
mod resources;
mod tools;

use crate::message_size::MAX_MESSAGE_BYTES;
use bounded_messages::{BoundedLines, Refused};
use bounded_requests::BoundedRequests;
use cellblock_tools::ToolRunner;
use client_handler::ClientHandler;
use rmcp::service::{ServerInitializeError, serve_server_with_ct};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{fmt, io};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use http::{HttpEndpoint, HttpOptions};
pub use quota::{ClientQuota, ClientUser, NewClient, SessionPlace};
pub use tools::{ForkTool, VariablesTool, WriteFileTool, with_tools_for_clients};

/// The most clients at the same time where the server does not know its users. Each may hold sessions. A server with users gives each user
/// a [`ClientQuota`] instead, so that one user does not take the places of others.
const MAX_CLIENTS: usize = 64;

/// How long sessions may take to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves MCP clients. Every client has its own tool runner, which is closed when the client disconnects. Clones are the same server.
#[derive(Clone)]
pub struct Server {
    inner: Arc<McpState>,
    advice: Advice,
}

/// Says what a person could do about a failure, given the structured result of a call.
type Advice = fn(&Value) -> Option<String>;

/// What is in a workspace before the first call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// The workspace is empty: a client that only lists resources needs no session.
    None,
    /// The workspace holds files of the user, which clients may list before their first call.
    Given,
}

struct McpState {
    files: Files,
    runner: Box<dyn Fn(&NewClient) -> ToolRunner + Send + Sync>,
    clients: AtomicUsize,
    /// Clients that are connected, and sessions that are being closed.
    closing: TaskTracker,
    stop: CancellationToken,
}

impl Server {
    /// A server that makes the tool runner of each client with `runner`. Sessions of the runner have the limits that the
    /// [`NewClient`] allows.
    pub fn new(
        files: Files,
        runner: impl Fn(&NewClient) -> ToolRunner + Send + Sync + 'static,
    ) -> Server {
        Server {
            inner: Arc::new(McpState {
                files,
                runner: Box::new(runner),
                clients: AtomicUsize::new(0),
                closing: TaskTracker::new(),
                stop: CancellationToken::new(),
            }),
            advice: |_| None,
        }
    }

    /// Adds what `advice` says about the structured result of a call to the text of the result. A server does not know how it was started; its
    /// caller does, and names the flag that would help.
    #[must_use]
    pub fn advice(mut self, advice: fn(&Value) -> Option<String>) -> Server {
        self.advice = advice;
        self
    }

    /// Stops serving: running calls are cancelled, sessions end, and `serve_http` and `serve_stdio` return soon.
    pub fn stop(&self) {
        self.inner.stop.cancel();
    }

    /// Waits until the sessions of all clients are closed.
    async fn wait_for_sessions(&self) {
        self.inner.closing.close();
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, self.inner.closing.wait()).await;
    }

    /// The handler of a new client. Refused when there are too many.
    fn new_client(&self) -> Result<ClientHandler, String> {
        if let Some(user) = quota::current_user() {
            let runner = (self.inner.runner)(&NewClient::of_user(user.clone()));
            return Ok(ClientHandler::new(runner, self.clone()).of_user(user));
        }
        let counted =
            self.inner
                .clients
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |clients| {
                    (clients < MAX_CLIENTS).then_some(clients + 1)
                });
        if counted.is_err() {
            return Err(format!(
                "{MAX_CLIENTS} clients are being served, and no more are possible"
            ));
        }
        let runner = (self.inner.runner)(&NewClient::default());
        Ok(ClientHandler::new(runner, self.clone()))
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Server")
            .field("clients", &self.inner.clients)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Serves the program that started this process, on standard input and output.
    pub async fn serve_stdio(&self) -> io::Result<()> {
        // With pipes, no other thread has to be woken for each message.
        let (input, output) = stdio_pipes();
        self.serve_streams(input, output).await
    }

    /// Serves one client until its input ends, or until [`stop`](Server::stop). Calls that run when its input ends have a few
    /// seconds to finish.
    pub async fn serve_streams(
        &self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> io::Result<()> {
        let handler = self.new_client().map_err(io::Error::other)?;
        let refused = Refused::default();
        let input = BoundedLines::new(input, refused.clone());
        let transport =
            AsyncRwTransport::new_server(input, output).with_max_line_length(MAX_MESSAGE_BYTES);
        let transport = BoundedRequests::new(transport, refused);
        let served = serve_server_with_ct(handler, transport, self.inner.stop.clone()).await;
        let outcome = match served {
            Ok(running) => running
                .waiting()
                .await
                .map(|_| ())
                .map_err(io::Error::other),
            // The client disconnected before its first request.
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
                Ok(())
            }
            Err(error) => Err(io::Error::other(error)),
        };
        self.wait_for_sessions().await;
        outcome
    }
}

/// For a model that has never seen this server.
const INSTRUCTIONS: &str = "\
This server is a Python interpreter for you: real CPython in a sealed sandbox that remembers everything between calls.

- Run code with execute_python_code. Variables, imports, functions and open files of one call are there in the next; do not repeat earlier \
code. Print what you want to see, or make it the last expression; plt.show() returns the picture.
- Nothing can be broken. If code crashes or runs out of time or memory, the session is as it was before that call. undo takes \
further calls back, checkpoints says how far.
- For one exact value (arithmetic, letters of a word, dates, sorting) compute is enough.
- variables lists what is defined. list_files and file_reader look at the workspace, write_file puts a file there. Files that code writes \
to its working directory are also resources of this server.
- To try something without risk, or two ways from the same point, call fork: you get a second session with the same variables and \
files, and pass its name as `session` to the other tools.
- There is no network inside beyond what the user opened. Other tools of this server, where there are any, can also be called from your code as functions with keyword \
arguments: see help(tools). One cell that calls, filters and prints the few lines you need saves many separate calls.
- recursive_plan_tree_todo keeps a plan for long work.";

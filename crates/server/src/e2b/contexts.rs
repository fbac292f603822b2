//! Contexts: places in which cells run one after the other, with variables of their own and the files of the sandbox.
//!
//! The default context is the session of the sandbox. Every further Python context is a session of its own on the same workspace; a context
//! of `bash` starts one shell for each cell, which takes the variables and the directory over from the one before it; a context of JavaScript
//! keeps a `node` beside the Python of the sandbox.

use super::create::sandbox_limits;
use super::error::E2bError;
use super::javascript::Interpreter;
use super::sandbox::{Sandbox, lock};
use crate::auth::random_id;
use crate::copies::SessionCopy;
use crate::live::LiveSession;
use crate::state::AppState;
use axum::http::StatusCode;
use cellblock_protocol::{Cell, Journaling, SessionOptions, Shell, Status, WorkspacePlace};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{Mutex, watch};

/// The most contexts of one sandbox.
const MAX_CONTEXTS: usize = 16;

/// A language in which cells can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Python,
    Bash,
    JavaScript,
}

impl Language {
    /// The language of this name; Python without one.
    pub(super) fn named(name: Option<&str>) -> Result<Language, E2bError> {
        match name {
            None | Some("" | "python" | "python3") => Ok(Language::Python),
            Some("bash" | "sh") => Ok(Language::Bash),
            Some("javascript" | "js") => Ok(Language::JavaScript),
            Some(other) => {
                let shown: String = other.chars().take(32).collect();
                Err(E2bError::not_offered(format!(
                    "the language `{shown}` is not offered: cells of this server are python, javascript or bash"
                )))
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Language::Python => "python",
            Language::Bash => "bash",
            Language::JavaScript => "javascript",
        }
    }
}

/// A context of a sandbox.
#[derive(Debug)]
pub(super) struct CodeContext {
    pub(super) id: String,
    pub(super) language: Language,
    pub(super) cwd: String,
    /// The session in which cells run.
    pub(super) live: Arc<LiveSession>,
    ownership: Ownership,
    /// Held while a cell runs: cells of one context run one after the other.
    pub(super) turn: Mutex<()>,
    /// How many cells were begun.
    pub(super) cells: AtomicU64,
    /// The interpreter of a context of JavaScript, from its first cell on. A cell that runs holds it.
    pub(super) javascript: Mutex<Option<Interpreter>>,
    /// Tells the cell of JavaScript that runs that its context is started anew.
    pub(super) restarts: watch::Sender<()>,
}

/// Whose session a context runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ownership {
    Sandboxes,
    Own,
}

impl CodeContext {
    /// The default Python context of a new sandbox.
    pub(super) fn default_of(live: &Arc<LiveSession>) -> Arc<CodeContext> {
        CodeContext::default_for(live, Language::Python)
    }

    /// The id of a default context.
    pub(super) fn default_id(live: &LiveSession, language: Language) -> String {
        match language {
            Language::Python => live.id.clone(),
            Language::Bash => format!("{}-bash", live.id),
            Language::JavaScript => format!("{}-javascript", live.id),
        }
    }

    /// A default context, in the session of the sandbox.
    pub(super) fn default_for(live: &Arc<LiveSession>, language: Language) -> Arc<CodeContext> {
        Arc::new(CodeContext {
            id: CodeContext::default_id(live, language),
            language,
            cwd: live.session.workspace_at().to_string_lossy().into_owned(),
            live: Arc::clone(live),
            ownership: Ownership::Sandboxes,
            turn: Mutex::new(()),
            cells: AtomicU64::new(0),
            javascript: Mutex::new(None),
            restarts: watch::Sender::new(()),
        })
    }

    /// Makes a further context.
    pub(super) async fn create(
        state: &AppState,
        sandbox: &Sandbox,
        language: Language,
        cwd: Option<String>,
    ) -> Result<Arc<CodeContext>, E2bError> {
        if lock(&sandbox.contexts).len() >= MAX_CONTEXTS {
            return Err(E2bError::new(
                StatusCode::TOO_MANY_REQUESTS,
                format!("{MAX_CONTEXTS} contexts are there already; remove one first"),
            ));
        }
        let cwd = cwd.filter(|cwd| !cwd.is_empty());
        let cwd = cwd.map_or_else(|| sandbox.home(), |cwd| sandbox.absolute(&cwd));
        let (live, ownership) = match language {
            Language::Python => (open_beside(state, sandbox).await?, Ownership::Own),
            Language::Bash | Language::JavaScript => {
                (Arc::clone(&sandbox.live), Ownership::Sandboxes)
            }
        };
        let context = Arc::new(CodeContext {
            id: random_id("c")?,
            language,
            cwd,
            live,
            ownership,
            turn: Mutex::new(()),
            cells: AtomicU64::new(0),
            javascript: Mutex::new(None),
            restarts: watch::Sender::new(()),
        });
        if let Err(error) = context.enter_directory(sandbox).await {
            context.remove(state, sandbox).await?;
            return Err(error);
        }
        lock(&sandbox.contexts).push(Arc::clone(&context));
        Ok(context)
    }

    /// The context as clients read it.
    pub(super) fn json(&self) -> Value {
        json!({"id": self.id, "language": self.language.name(), "cwd": self.cwd})
    }

    /// The session, where it is not that of the sandbox.
    pub(super) fn own_session(&self) -> Option<cellblock_host::Session> {
        (self.ownership == Ownership::Own).then(|| self.live.session.clone())
    }

    /// Where a shell of this context keeps its variables for the next one.
    pub(super) fn shell_state_path(&self) -> String {
        format!("/tmp/.shell-{}", self.id)
    }

    /// Ends the session of the context, where it has one of its own.
    pub(super) async fn close(&self, state: &AppState) -> Result<(), E2bError> {
        match self.ownership {
            Ownership::Own => Ok(state.close_session(&self.live.id).await?),
            Ownership::Sandboxes => Ok(()),
        }
    }

    /// Forgets the context. The session of the sandbox forgets its variables.
    pub(super) async fn remove(&self, state: &AppState, sandbox: &Sandbox) -> Result<(), E2bError> {
        match self.ownership {
            Ownership::Own => self.close(state).await,
            Ownership::Sandboxes => self.restart(sandbox).await,
        }
    }

    /// Forgets all variables. A cell that runs is interrupted.
    pub(super) async fn restart(&self, sandbox: &Sandbox) -> Result<(), E2bError> {
        if self.language == Language::Bash {
            let _ = sandbox
                .live
                .session
                .paths()
                .remove(&self.shell_state_path())
                .await;
            self.cells.store(0, Ordering::SeqCst);
            return Ok(());
        }
        if self.language == Language::JavaScript {
            // A cell that runs has taken the interpreter out, and ends with it.
            self.restarts.send_replace(());
            let _turn = self.turn.lock().await;
            self.javascript.lock().await.take();
            self.cells.store(0, Ordering::SeqCst);
            return Ok(());
        }
        let turn = self.turn.try_lock();
        let _turn = match turn {
            Ok(turn) => turn,
            Err(_) => {
                self.live.session.interrupt();
                self.turn.lock().await
            }
        };
        self.live.session.reset().await?;
        self.cells.store(0, Ordering::SeqCst);
        drop(_turn);
        self.enter_directory(sandbox).await
    }

    /// Makes the directory of the context the working directory of its interpreter.
    async fn enter_directory(&self, sandbox: &Sandbox) -> Result<(), E2bError> {
        sandbox.live.session.paths().stat(&self.cwd).await?;
        if self.language != Language::Python || self.ownership == Ownership::Sandboxes {
            return Ok(());
        }
        // A JSON text of these characters is a Python text too.
        let quoted = json!(self.cwd).to_string();
        let code = format!("__import__('os').chdir({quoted})");
        let result = self.live.session.run(Cell::new(code).silent(true)).await?;
        self.live.note_cell(result.cell);
        match result.status {
            Status::Success => Ok(()),
            _ => Err(E2bError::bad_request(format!(
                "cwd '{}' cannot be used",
                self.cwd
            ))),
        }
    }
}

/// A session on the workspace of a sandbox, which counts against the limits of its owner.
async fn open_beside(state: &AppState, sandbox: &Sandbox) -> Result<Arc<LiveSession>, E2bError> {
    let limits = sandbox_limits();
    let memory = limits.memory;
    let place = state.take_place(&sandbox.caller.user, memory)?;
    let options = SessionOptions {
        workspace: Some(sandbox.live.session.workspace().to_owned()),
        workspace_at: place_of(&sandbox.live.session),
        env: sandbox.settings.env.clone(),
        shell: Shell::E2b,
        journal: Journaling::In(state.data("journals")),
        limits,
        network: state.network_of(&sandbox.settings),
        ..SessionOptions::default()
    };
    let session = state
        .open_on_host(&sandbox.caller.user, options)
        .await
        .map_err(crate::error::ApiError::from)?;
    let copy = SessionCopy::of_sandbox(memory, 0);
    let adopted = state.adopt_copy(&sandbox.caller, session, copy, place);
    Ok(adopted.await?)
}

/// The place of a session's workspace, for another session on the same files.
fn place_of(session: &cellblock_host::Session) -> WorkspacePlace {
    let path = session.workspace_at().to_string_lossy().into_owned();
    // Without a view of its own, a session finds the workspace where the host has it.
    WorkspacePlace::new(path).unwrap_or_default()
}

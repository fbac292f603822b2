//! An executor over sessions of this machine, or of any other place where a session can be opened.

use super::{
    BoxFuture, CallOutcome, Cell, CellOutcome, CodeEnvironment, Executor, ExecutorOptions,
    ForkKind, OpenExecutor, WorkspaceChoice,
};
use cellblock_protocol::{CheckpointState, FileEntry, Seed, Undone, Variable};
use cellblock_tools::plan::PlanHistory;
use cellblock_tools::{
    Call, OnToolEvent, Recording, Session, SessionFuture, ToolError, ToolRunner,
};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Opens a session.
type OpenSession = Arc<dyn Fn(SessionRequest) -> SessionFuture + Send + Sync>;

/// What a run needs of its session.
#[derive(Clone, Debug, Default)]
pub struct SessionRequest {
    /// The variables that the first cell sees.
    pub seed: Seed,
    /// Which directory the session works in.
    pub workspace: WorkspaceChoice,
}

/// Runs code in sessions that a function opens.
#[derive(Clone)]
pub struct LocalExecutor {
    open_session: OpenSession,
    dependencies: Vec<String>,
    workspace: String,
    surroundings: CodeEnvironment,
    /// The session of the first run, where the caller gave one.
    first_session: Arc<Mutex<Option<Session>>>,
}

impl LocalExecutor {
    /// An executor that opens its sessions by this function. It is called when a run needs its session for the first time.
    pub fn new(
        open_session: impl Fn(SessionRequest) -> SessionFuture + Send + Sync + 'static,
    ) -> LocalExecutor {
        LocalExecutor {
            open_session: Arc::new(open_session),
            dependencies: Vec::new(),
            workspace: "/workspace".to_owned(),
            surroundings: CodeEnvironment::default(),
            first_session: Arc::default(),
        }
    }

    /// Gives the first run a session that is open already and has its tools.
    pub fn with_first_session(self, session: Session) -> LocalExecutor {
        LocalExecutor {
            first_session: Arc::new(Mutex::new(Some(session))),
            ..self
        }
    }

    /// Sets the packages that code can import, as the prompt lists them.
    pub fn dependencies(mut self, names: impl IntoIterator<Item = String>) -> LocalExecutor {
        self.dependencies = names.into_iter().collect();
        self
    }

    /// Sets what code finds when it starts, as the prompt lists it.
    pub fn surroundings(mut self, surroundings: CodeEnvironment) -> LocalExecutor {
        self.surroundings = surroundings;
        self
    }

    /// Sets the working directory as code sees it. The default is `/workspace`.
    pub fn workspace(mut self, path: impl Into<String>) -> LocalExecutor {
        self.workspace = path.into();
        self
    }
}

impl fmt::Debug for LocalExecutor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("LocalExecutor")
            .field("workspace", &self.workspace)
            .finish_non_exhaustive()
    }
}

impl Executor for LocalExecutor {
    fn available_dependencies(&self) -> Vec<String> {
        self.dependencies.clone()
    }

    fn workspace_path(&self) -> String {
        self.workspace.clone()
    }

    fn surroundings(&self) -> CodeEnvironment {
        self.surroundings.clone()
    }

    fn open(&self, options: ExecutorOptions) -> Arc<dyn OpenExecutor> {
        let open_session = Arc::clone(&self.open_session);
        let request = SessionRequest {
            seed: options.seed,
            workspace: options.workspace,
        };
        let mut runner = ToolRunner::builder(options.registry)
            .open_sessions(move || open_session(request.clone()))
            .approval(options.approval)
            .locale(options.locale)
            .record();
        let mut first = self
            .first_session
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if options.workspace == WorkspaceChoice::Usual
            && let Some(session) = first.take()
        {
            runner = runner.first_session(session);
        }
        if let Some(earlier) = options.earlier {
            runner = runner.resume(earlier);
        }
        if let Some(recording) = options.replay {
            runner = runner.replay(recording);
        }
        Arc::new(OpenLocalExecutor(runner.build()))
    }
}

struct OpenLocalExecutor(ToolRunner);

impl OpenExecutor for OpenLocalExecutor {
    fn run<'a>(&'a self, cell: Cell, on_event: Option<OnToolEvent>) -> BoxFuture<'a, CellOutcome> {
        Box::pin(async move {
            let answer = self.0.run_code(cell, on_event).await;
            CellOutcome::new(answer, self.0.locale())
        })
    }

    fn call<'a>(&'a self, call: Call, on_event: Option<OnToolEvent>) -> BoxFuture<'a, CallOutcome> {
        Box::pin(self.0.call_typed(call, on_event))
    }

    fn interrupt(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Some(session) = self.0.current_session().await {
                session.interrupt();
            }
        })
    }

    fn session(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async {
            let session = self.0.current_session().await?;
            Some(session.id().to_owned())
        })
    }

    fn journal(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async {
            let session = self.0.current_session().await?;
            session.journal().map(|journal| journal.id.to_owned())
        })
    }

    fn checkpoint(&self) -> BoxFuture<'_, Option<CheckpointState>> {
        Box::pin(async {
            let session = self.0.current_session().await?;
            session.checkpoints().await.ok().map(|list| list.state)
        })
    }

    fn variables(&self) -> BoxFuture<'_, Vec<Variable>> {
        Box::pin(async {
            match self.0.current_session().await {
                Some(session) => session.vars().await.unwrap_or_default(),
                None => Vec::new(),
            }
        })
    }

    fn files(&self) -> BoxFuture<'_, Vec<FileEntry>> {
        Box::pin(async {
            match self.0.current_session().await {
                Some(session) => session.list_files().await.unwrap_or_default(),
                None => Vec::new(),
            }
        })
    }

    fn plan(&self) -> Option<String> {
        let plan = self.0.state::<PlanHistory>();
        let plan = plan.lock().unwrap_or_else(PoisonError::into_inner);
        plan.markdown(self.0.locale())
    }

    fn recording(&self) -> Recording {
        self.0.recording().unwrap_or_default()
    }

    fn fork(&self, kind: ForkKind) -> BoxFuture<'_, Result<Arc<dyn OpenExecutor>, ToolError>> {
        Box::pin(async move {
            let fork = self.0.session().await?.fork().await?;
            let runner = match kind {
                ForkKind::Trial => self.0.for_trial(fork),
                ForkKind::Lasting => self.0.for_fork(Some(fork), None),
                ForkKind::WithTools(tools) => self.0.for_fork(Some(fork), Some(*tools)),
            };
            let executor: Arc<dyn OpenExecutor> = Arc::new(OpenLocalExecutor(runner));
            Ok(executor)
        })
    }

    fn undo(&self, cells: usize) -> BoxFuture<'_, Result<Undone, ToolError>> {
        Box::pin(async move { Ok(self.0.session().await?.undo(cells).await?) })
    }

    fn put_file<'a>(
        &'a self,
        path: &'a str,
        contents: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move { Ok(self.0.session().await?.put_file(path, contents).await?) })
    }

    fn save_file<'a>(
        &'a self,
        path: &'a str,
        contents: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move { Ok(self.0.session().await?.save_file(path, contents).await?) })
    }

    fn workspace_directory(&self) -> BoxFuture<'_, Option<PathBuf>> {
        Box::pin(async {
            let session = self.0.current_session().await?;
            Some(session.workspace().to_owned())
        })
    }

    fn get_file<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<u8>, ToolError>> {
        Box::pin(async move { Ok(self.0.session().await?.get_file(path).await?) })
    }

    fn open_file<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<std::fs::File, ToolError>> {
        Box::pin(async move { Ok(self.0.session().await?.open_file(path).await?) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.close())
    }
}

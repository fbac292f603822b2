//! Sessions of this machine.

use super::{Doing, Executor, ForkKind, RUN_CODE, Ran, Room, Setting, ran};
use cellblock_protocol::{Cell, FileEntry, Seed, Undone, Variable};
use cellblock_tools::plan::PlanBook;
use cellblock_tools::{
    Answer, Call, Caller, Opening, Recording, Session, ToolError, Watcher, Workbench,
};
use serde_json::{Map, Value, json};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Makes a session.
type Open = Arc<dyn Fn(Wanted) -> Opening + Send + Sync>;

/// What a session must have.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// These variables.
    pub seed: Seed,
    /// A workspace of its own, not the user's directory, with the files that were there at the beginning.
    pub fresh_workspace: bool,
}

/// Runs code in sessions that a function of yours opens: on this machine, or wherever a session can live.
#[derive(Clone)]
pub struct LocalExecutor {
    open: Open,
    dependencies: Vec<String>,
    workspace: String,
    /// For the first run.
    first: Arc<Mutex<Option<Session>>>,
}

impl LocalExecutor {
    /// Sessions come from this function.
    pub fn new(open: impl Fn(Wanted) -> Opening + Send + Sync + 'static) -> LocalExecutor {
        LocalExecutor {
            open: Arc::new(open),
            dependencies: Vec::new(),
            workspace: "/workspace".to_owned(),
            first: Arc::default(),
        }
    }

    /// The first run works in this session, which is there already and has its tools.
    pub fn beginning_with(self, session: Session) -> LocalExecutor {
        LocalExecutor {
            first: Arc::new(Mutex::new(Some(session))),
            ..self
        }
    }

    /// The packages that can be imported there, for the model.
    pub fn dependencies(mut self, names: impl IntoIterator<Item = String>) -> LocalExecutor {
        self.dependencies = names.into_iter().collect();
        self
    }

    /// The working directory as code sees it, where it is not `/workspace`.
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

    fn open(&self, setting: Setting) -> Arc<dyn Room> {
        let open = Arc::clone(&self.open);
        let wanted = Wanted {
            seed: setting.seed,
            fresh_workspace: setting.fresh_workspace,
        };
        let mut bench = Workbench::builder(setting.registry)
            .sessions(move || open(wanted.clone()))
            .approval(setting.approval)
            .locale(setting.locale)
            .record();
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if !setting.fresh_workspace
            && let Some(session) = first.take()
        {
            bench = bench.seated(session);
        }
        if let Some(earlier) = setting.earlier {
            bench = bench.take_up(earlier);
        }
        if let Some(recording) = setting.replay {
            bench = bench.replay(recording);
        }
        Arc::new(LocalRoom(bench.build()))
    }
}

struct LocalRoom(Workbench);

impl Room for LocalRoom {
    fn run<'a>(&'a self, cell: Cell, watcher: Option<Watcher>) -> Doing<'a, Ran> {
        let mut arguments = Map::new();
        arguments.insert("python_code_snippet".to_owned(), json!(cell.code));
        if let Some(seconds) = cell.timeout {
            arguments.insert("timeout".to_owned(), Value::from(seconds));
        }
        let call = Call {
            id: String::new(),
            name: RUN_CODE.to_owned(),
            arguments: arguments.into(),
            caller: Caller::User,
        };
        Box::pin(async move {
            let answer = self.0.call_watched(call, watcher).await;
            ran(&answer, self.0.locale())
        })
    }

    fn call<'a>(&'a self, call: Call, watcher: Option<Watcher>) -> Doing<'a, Answer> {
        Box::pin(self.0.call_watched(call, watcher))
    }

    fn interrupt(&self) -> Doing<'_, ()> {
        Box::pin(async {
            if let Some(session) = self.0.open_session().await {
                session.interrupt();
            }
        })
    }

    fn session(&self) -> Doing<'_, Option<String>> {
        Box::pin(async {
            let session = self.0.open_session().await?;
            Some(session.id().to_owned())
        })
    }

    fn journal(&self) -> Doing<'_, Option<String>> {
        Box::pin(async {
            let session = self.0.open_session().await?;
            session.journal().map(|(id, ..)| id.to_owned())
        })
    }

    fn variables(&self) -> Doing<'_, Vec<Variable>> {
        Box::pin(async {
            match self.0.open_session().await {
                Some(session) => session.vars().await.unwrap_or_default(),
                None => Vec::new(),
            }
        })
    }

    fn files(&self) -> Doing<'_, Vec<FileEntry>> {
        Box::pin(async {
            match self.0.open_session().await {
                Some(session) => session.list_files().await.unwrap_or_default(),
                None => Vec::new(),
            }
        })
    }

    fn plan(&self) -> Option<String> {
        let book = self.0.state::<PlanBook>();
        let book = book.lock().unwrap_or_else(PoisonError::into_inner);
        book.markdown(self.0.locale())
    }

    fn recording(&self) -> Recording {
        self.0.recording().unwrap_or_default()
    }

    fn fork(&self, kind: ForkKind) -> Doing<'_, Result<Arc<dyn Room>, ToolError>> {
        Box::pin(async move {
            let copy = self.0.session().await?.fork().await?;
            let bench = match kind {
                ForkKind::Trial => self.0.trial(copy),
                ForkKind::Lasting => self.0.over(copy),
            };
            let room: Arc<dyn Room> = Arc::new(LocalRoom(bench));
            Ok(room)
        })
    }

    fn undo(&self, cells: usize) -> Doing<'_, Result<Undone, ToolError>> {
        Box::pin(async move { Ok(self.0.session().await?.undo(cells).await?) })
    }

    fn put_file<'a>(
        &'a self,
        path: &'a str,
        contents: Vec<u8>,
    ) -> Doing<'a, Result<(), ToolError>> {
        Box::pin(async move { Ok(self.0.session().await?.put_file(path, contents).await?) })
    }

    fn get_file<'a>(&'a self, path: &'a str) -> Doing<'a, Result<Vec<u8>, ToolError>> {
        Box::pin(async move { Ok(self.0.session().await?.get_file(path).await?) })
    }

    fn open_file<'a>(&'a self, path: &'a str) -> Doing<'a, Result<std::fs::File, ToolError>> {
        Box::pin(async move { Ok(self.0.session().await?.open_file(path).await?) })
    }

    fn close(&self) -> Doing<'_, ()> {
        Box::pin(self.0.close())
    }
}

//! An executor whose interpreter does nothing: for tests of what really comes from running code.

use super::{Doing, Executor, ForkKind, Ran, Room, Setting};
use cellblock_protocol::{Cell, FileEntry, Undone, Variable};
use cellblock_tools::{Answer, Call, Output, Recording, ToolError, Uses, Watcher, Workbench};
use std::sync::Arc;
use std::time::Duration;

/// Takes every cell and returns nothing. Tools that need no interpreter are called as ever.
#[derive(Clone, Copy, Debug, Default)]
pub struct NothingExecutor;

impl Executor for NothingExecutor {
    fn available_dependencies(&self) -> Vec<String> {
        Vec::new()
    }

    fn workspace_path(&self) -> String {
        "/workspace".to_owned()
    }

    fn open(&self, setting: Setting) -> Arc<dyn Room> {
        let mut bench = Workbench::builder(setting.registry)
            .approval(setting.approval)
            .locale(setting.locale)
            .record();
        if let Some(earlier) = setting.earlier {
            bench = bench.take_up(earlier);
        }
        Arc::new(NothingRoom(bench.build()))
    }
}

struct NothingRoom(Workbench);

impl Room for NothingRoom {
    fn run<'a>(&'a self, _: Cell, _: Option<Watcher>) -> Doing<'a, Ran> {
        Box::pin(async {
            Ran {
                text: String::new(),
                result: None,
                attachments: Vec::new(),
            }
        })
    }

    fn call<'a>(&'a self, call: Call, watcher: Option<Watcher>) -> Doing<'a, Answer> {
        let definition = self.0.registry().get(&call.name);
        if definition.is_none_or(|definition| definition.uses == Uses::Nothing) {
            return Box::pin(self.0.call_watched(call, watcher));
        }
        Box::pin(async {
            Answer {
                id: call.id,
                name: call.name,
                outcome: Ok(Output::default()),
                notes: Vec::new(),
                took: Duration::ZERO,
            }
        })
    }

    fn interrupt(&self) -> Doing<'_, ()> {
        Box::pin(async {})
    }

    fn session(&self) -> Doing<'_, Option<String>> {
        Box::pin(async { None })
    }

    fn variables(&self) -> Doing<'_, Vec<Variable>> {
        Box::pin(async { Vec::new() })
    }

    fn files(&self) -> Doing<'_, Vec<FileEntry>> {
        Box::pin(async { Vec::new() })
    }

    fn plan(&self) -> Option<String> {
        None
    }

    fn recording(&self) -> Recording {
        self.0.recording().unwrap_or_default()
    }

    fn fork(&self, _: ForkKind) -> Doing<'_, Result<Arc<dyn Room>, ToolError>> {
        Box::pin(async {
            let room: Arc<dyn Room> = Arc::new(NothingRoom(self.0.clone()));
            Ok(room)
        })
    }

    fn undo(&self, _: usize) -> Doing<'_, Result<Undone, ToolError>> {
        Box::pin(async { Err(ToolError::new("there is nothing to take back")) })
    }

    fn put_file<'a>(&'a self, _: &'a str, _: Vec<u8>) -> Doing<'a, Result<(), ToolError>> {
        Box::pin(async { Ok(()) })
    }

    fn get_file<'a>(&'a self, _: &'a str) -> Doing<'a, Result<Vec<u8>, ToolError>> {
        Box::pin(async { Err(ToolError::new("there are no files")) })
    }

    fn open_file<'a>(&'a self, _: &'a str) -> Doing<'a, Result<std::fs::File, ToolError>> {
        Box::pin(async { Err(ToolError::new("there are no files")) })
    }

    fn close(&self) -> Doing<'_, ()> {
        Box::pin(async {})
    }
}

//! An executor that runs no code, for tests that check where an answer comes from.

use super::{
    BoxFuture, CallOutcome, Cell, CellOutcome, Executor, ExecutorOptions, ForkKind, OpenExecutor,
};
use cellblock_protocol::{FileEntry, Undone, Variable};
use cellblock_tools::{Answer, Call, OnToolEvent, Output, Recording, ToolError, ToolRunner, Uses};
use std::sync::Arc;
use std::time::Duration;

/// Accepts every cell and runs none of them. Tools that need no interpreter are called as usual.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoopExecutor;

impl Executor for NoopExecutor {
    fn available_dependencies(&self) -> Vec<String> {
        Vec::new()
    }

    fn workspace_path(&self) -> String {
        "/workspace".to_owned()
    }

    fn open(&self, options: ExecutorOptions) -> Arc<dyn OpenExecutor> {
        let mut runner = ToolRunner::builder(options.registry)
            .approval(options.approval)
            .locale(options.locale)
            .record();
        if let Some(earlier) = options.earlier {
            runner = runner.resume(earlier);
        }
        Arc::new(OpenNoopExecutor(runner.build()))
    }
}

struct OpenNoopExecutor(ToolRunner);

impl OpenExecutor for OpenNoopExecutor {
    fn run<'a>(&'a self, _: Cell, _: Option<OnToolEvent>) -> BoxFuture<'a, CellOutcome> {
        Box::pin(async { CellOutcome::default() })
    }

    fn call<'a>(&'a self, call: Call, on_event: Option<OnToolEvent>) -> BoxFuture<'a, CallOutcome> {
        let definition = self.0.registry().get(&call.name);
        if definition.is_none_or(|definition| definition.uses != Uses::Interpreter) {
            return Box::pin(self.0.call_typed(call, on_event));
        }
        let answer = Answer {
            id: call.id,
            name: call.name,
            outcome: Ok(Output::default()),
            notes: Vec::new(),
            took: Duration::ZERO,
        };
        Box::pin(async { CallOutcome { answer, cell: None } })
    }

    fn interrupt(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn session(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async { None })
    }

    fn variables(&self) -> BoxFuture<'_, Vec<Variable>> {
        Box::pin(async { Vec::new() })
    }

    fn files(&self) -> BoxFuture<'_, Vec<FileEntry>> {
        Box::pin(async { Vec::new() })
    }

    fn plan(&self) -> Option<String> {
        None
    }

    fn recording(&self) -> Recording {
        self.0.recording().unwrap_or_default()
    }

    fn fork(&self, kind: ForkKind) -> BoxFuture<'_, Result<Arc<dyn OpenExecutor>, ToolError>> {
        let runner = match kind {
            ForkKind::Trial => self.0.clone(),
            ForkKind::Lasting => self.0.for_fork(None, None),
            ForkKind::WithTools(tools) => self.0.for_fork(None, Some(*tools)),
        };
        Box::pin(async {
            let executor: Arc<dyn OpenExecutor> = Arc::new(OpenNoopExecutor(runner));
            Ok(executor)
        })
    }

    fn undo(&self, _: usize) -> BoxFuture<'_, Result<Undone, ToolError>> {
        Box::pin(async { Err(ToolError::new("there is nothing to take back")) })
    }

    fn put_file<'a>(&'a self, _: &'a str, _: Vec<u8>) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async { Ok(()) })
    }

    fn get_file<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<u8>, ToolError>> {
        Box::pin(async { Err(ToolError::new("there are no files")) })
    }

    fn open_file<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<std::fs::File, ToolError>> {
        Box::pin(async { Err(ToolError::new("there are no files")) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

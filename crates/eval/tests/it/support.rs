//! Sessions, models and suites for tests.

use cellblock::agent::{GivenFile, executor};
use cellblock::env::Dirs;
use cellblock::{Host, Preload, PythonChoice, SessionOptions};
use cellblock_agent::{Agent, AgentBuilder, CancellationToken, Format, NoopExecutor};
use cellblock_eval::{EvalReport, Evaluation, Suite, TaskFile};
use cellblock_model::{Reply, ScriptedModel};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
});

/// Waits for anything that is asynchronous, but not for ever.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    RUNTIME
        .block_on(async { tokio::time::timeout(Duration::from_secs(120), future).await })
        .expect("it did not end in time")
}

static HOST: LazyLock<Host> = LazyLock::new(|| {
    let name = format!("cellblock-eval-tests-{}", std::process::id());
    let dirs = Dirs {
        state: std::env::temp_dir().join(name),
        ..Dirs::from_process().unwrap()
    };
    let host = Host::builder().python(PythonChoice::StandardLibrary);
    host.preload(Preload::None).dirs(dirs).build().unwrap()
});

/// Agents whose code really runs.
pub fn agents(format: Format) -> impl Fn(Vec<TaskFile>) -> AgentBuilder + Send + Sync + 'static {
    move |files| {
        let files = files.into_iter().map(|file| GivenFile {
            path: file.path,
            contents: Arc::new(file.contents),
        });
        let sessions = executor(HOST.clone(), SessionOptions::default(), files.collect());
        Agent::builder().executor(sessions).format(format)
    }
}

/// Agents whose code does nothing.
pub fn idle_agents(
    format: Format,
) -> impl Fn(Vec<TaskFile>) -> AgentBuilder + Send + Sync + 'static {
    move |_| Agent::builder().executor(NoopExecutor).format(format)
}

/// A suite of one task, whose model says these texts.
pub fn one_task(task: &str, texts: &[&str]) -> Evaluation {
    one_task_in(Format::Markdown, task, texts)
}

/// The same in another format.
pub fn one_task_in(format: Format, task: &str, texts: &[&str]) -> Evaluation {
    let suite = Suite::parse(&format!("name = \"one\"\n[[tasks]]\nname = \"it\"\n{task}")).unwrap();
    let replies: Vec<Reply> = texts.iter().copied().map(Reply::text).collect();
    Evaluation::new(
        suite,
        move |_| Ok(Arc::new(ScriptedModel::new(replies.clone()))),
        agents(format),
    )
}

/// Runs it to its end.
pub fn finished(evaluation: &Evaluation) -> EvalReport {
    wait(evaluation.run(&|_| {}, &CancellationToken::new()))
}

/// A file of the folder `evals` of this repository.
pub fn on_file(path: &str) -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    repository.join("evals").join(path)
}

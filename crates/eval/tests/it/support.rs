//! Sessions, models and suites for tests.

use cellblock_agent::{
    Agent, AgentBuilder, CancellationToken, Format, LocalExecutor, NoopExecutor, SessionRequest,
};
use cellblock_eval::{EvalReport, Evaluation, Suite, TaskFile};
use cellblock_model::{Reply, ScriptedModel};
use cellblock_protocol::SessionOptions;
use cellblock_test_support::open_session;
pub use cellblock_test_support::wait;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Agents whose code really runs.
pub fn agents(format: Format) -> impl Fn(Vec<TaskFile>) -> AgentBuilder + Send + Sync + 'static {
    move |files| {
        let open = move |request: SessionRequest| -> cellblock_tools::SessionFuture {
            let files = files.clone();
            Box::pin(async move {
                let options = SessionOptions {
                    seed: request.seed,
                    ..SessionOptions::default()
                };
                let session = open_session(options).await?;
                for file in files {
                    session.put_file(&file.path, file.contents).await?;
                }
                Ok(session)
            })
        };
        let executor = LocalExecutor::new(open);
        Agent::builder().executor(executor).format(format)
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

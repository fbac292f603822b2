//! `cellblock pipe`: sessions for a program in any language, as JSON lines on standard input and output.
//!
//! One task reads and decides what is to be done at once (answers, interrupts); each session has a task that does the rest in
//! order. Short lines are written by the task that has them, while the reader keeps up; one thread writes the rest. W1 to W6 of
//! the contracts are the law here.

mod agents;
mod files;
mod input;
mod operations;
mod output;
mod processes;
mod server;
mod session_task;
mod watches;

use crate::args::{EnvironmentArgs, PythonArgs, SETUP_HINT};
use crate::cell_run::Signals;
use crate::process;
use crate::terminal::Console;
use cellblock::Preload;
use clap::Args;
use input::InputLines;
use server::PipeServer;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Sessions that are made ahead of demand.
const POOL_SIZE: usize = 2;
/// How long sessions, and then the last lines, may take after a signal.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PipeArgs {
    /// Keep no journals: sessions cannot be restored when this program is killed
    #[arg(long)]
    no_journal: bool,
    #[command(flatten)]
    python: PythonArgs,
    #[command(flatten)]
    environment: EnvironmentArgs,
}

const EXAMPLES: &str = r#"Each line is a request; its answer, and what happens on the way, carry its id:
  > {"id":1,"op":"run","code":"x = 2\nprint(x)\nx","timeout":5}
  < {"id":1,"session":"default","event":"stdout","text":"2\n"}
  < {"id":1,"session":"default","event":"result","result":{"status":"success", ...}}

Requests of one session are done in order, sessions run side by side. `interrupt`, `tool_result` and `input` are heard
at once. A session that ended (a crash, a time-out) answers with the error `ended` until it is opened or closed.
At the end of input what was asked is finished, then every session is closed; on SIGTERM they are closed at once.

Examples:
  echo '{"id":1,"op":"run","code":"6*7"}' | cellblock pipe
  cellblock pipe --stdlib"#;

/// Serves until the input ends, a signal comes, or the reader of the output is gone.
pub(crate) fn run(args: PipeArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let runtime = process::runtime_on_threads(2)?;
    let outcome = runtime.block_on(serve(&args, console));
    // A thread may still wait to read or to write a line.
    runtime.shutdown_background();
    outcome
}

async fn serve(args: &PipeArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new()?;
    let builder = args
        .python
        .host_builder(Preload::Full)
        .pool(POOL_SIZE)
        .journal(!args.no_journal);
    let host = args.environment.build(builder, None, console).await?;
    if args.python.lacks_packages(&host) {
        console.hint(SETUP_HINT);
    }
    let (writer, written) = output::start_writing()?;
    let server = Arc::new(PipeServer::new(host, writer.clone(), console.clone()));
    let lines = InputLines::start()?;

    tokio::pin!(written);
    // A task, so that the threads that serve the sessions also read: this one sleeps until the end.
    let reading = Arc::clone(&server);
    let mut reading = AbortOnDrop(tokio::spawn(async move { reading.serve(lines).await }));
    let mut end = tokio::select! {
        _ = &mut reading.0 => End::Input,
        signal = signals.next() => End::Signal(signal),
        () = &mut written => End::Reader,
    };
    drop(reading);
    if matches!(end, End::Input) {
        end = tokio::select! {
            () = server.finish() => End::Input,
            signal = signals.next() => End::Signal(signal),
            () = &mut written => End::Reader,
        };
    }
    let status = match end {
        // A slow reader still gets everything.
        End::Input => {
            writer.finish().await;
            written.await;
            ExitCode::SUCCESS
        }
        End::Signal(signal) => {
            let _ = timeout(SHUTDOWN_TIMEOUT, server.stop()).await;
            let flush = async {
                writer.finish().await;
                written.await;
            };
            let _ = timeout(SHUTDOWN_TIMEOUT, flush).await;
            ExitCode::from(128 + signal as u8)
        }
        End::Reader => {
            let _ = timeout(SHUTDOWN_TIMEOUT, server.stop()).await;
            ExitCode::SUCCESS
        }
    };
    server.host.close_pools().await;
    Ok(status)
}

/// A task that ends when it is not waited for any more.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why the pipe ends.
enum End {
    /// There are no more requests.
    Input,
    /// A signal came.
    Signal(i32),
    /// The reader of the output is gone.
    Reader,
}

//! `cellblock pipe`: sessions for a program in any language, as JSON lines on standard input and output.
//!
//! One task reads and decides what is to be done at once (answers, interrupts); each session has a task that does the rest in
//! order; one thread writes. W1 to W6 of the contracts are the law here.

mod file_part;
mod lines;
mod operations;
mod server;
mod session_state;
mod session_task;
mod writer;

use crate::args::{EnvironmentArgs, PythonArgs, SETUP_HINT};
use crate::commands::live::Signals;
use crate::commands::runtime;
use crate::terminal::Console;
use cellblock::Preload;
use clap::Args;
use server::PipeServer;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Sessions that are made ahead of demand.
const AHEAD: usize = 2;
/// How long sessions and the last lines may take when we are told to end.
const FAREWELL: Duration = Duration::from_secs(5);

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

/// Serves until the input ends, a signal comes or nobody reads any more.
pub(crate) fn run(args: PipeArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let runtime = runtime::on_threads(2)?;
    let outcome = runtime.block_on(serve(&args, console));
    // A thread may still wait for a line, or for somebody to read one.
    runtime.shutdown_background();
    outcome
}

async fn serve(args: &PipeArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new()?;
    let builder = args
        .python
        .host_builder(Preload::Full)
        .pool(AHEAD)
        .journal(!args.no_journal);
    let host = args.environment.build(builder, None, console).await?;
    if args.python.lacks_packages(&host) {
        console.hint(SETUP_HINT);
    }
    let (writer, written) = writer::start()?;
    let server = Arc::new(PipeServer::new(host, writer.clone()));
    let mut lines = lines::start()?;

    tokio::pin!(written);
    let mut end = tokio::select! {
        () = server.serve(&mut lines) => End::Input,
        signal = signals.next() => End::Signal(signal),
        () = &mut written => End::Reader,
    };
    if matches!(end, End::Input) {
        end = tokio::select! {
            () = server.finish() => End::Input,
            signal = signals.next() => End::Signal(signal),
            () = &mut written => End::Reader,
        };
    }
    match end {
        // Whoever is slow to read still gets everything.
        End::Input => {
            writer.finish().await;
            written.await;
            Ok(ExitCode::SUCCESS)
        }
        End::Signal(signal) => {
            let _ = timeout(FAREWELL, server.stop()).await;
            let flush = async {
                writer.finish().await;
                written.await;
            };
            let _ = timeout(FAREWELL, flush).await;
            Ok(ExitCode::from(128 + signal as u8))
        }
        End::Reader => {
            let _ = timeout(FAREWELL, server.stop()).await;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Why we end.
enum End {
    /// There are no more requests.
    Input,
    /// We were told to.
    Signal(i32),
    /// Nobody reads what we write.
    Reader,
}

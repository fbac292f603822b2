//! `cellblock exec`: one snippet, and an exit status that tells its outcome.

mod source;

use crate::args::{EnvironmentArgs, PythonArgs, ResultArgs, SETUP_HINT, SessionArgs};
use crate::commands::live::{
    Answer, Asker, Followed, Follower, SecondInterrupt, Show, Signals, Stopped,
};
use crate::commands::outcome::{print_files, print_outcome, save_pictures};
use crate::commands::runtime;
use crate::config::ConfigArgs;
use crate::failure;
use crate::terminal::{Console, Style, milliseconds, size};
use cellblock::{
    Cell, CellResult, ForModel, Preload, Script, Session, SessionOptions, Status, Strategy,
};
use clap::Args;
use source::Source;
use std::io::{self, BufRead as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExecArgs {
    /// The snippet
    #[arg(short, long, value_name = "CODE", conflicts_with = "file")]
    code: Option<String>,
    /// A file with the snippet, or - for standard input
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// What a script finds in `sys.argv`, behind its own name
    #[arg(last = true, value_name = "ARGUMENT", requires = "file")]
    arguments: Vec<String>,
    #[command(flatten)]
    form: ResultArgs,
    /// Tell of files and of what it cost, also when standard error is no terminal
    #[arg(short, long)]
    verbose: bool,
    /// Keep a journal, for `cellblock sessions`
    #[arg(long)]
    journal: bool,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    python: PythonArgs,
    #[command(flatten)]
    environment: EnvironmentArgs,
}

const EXAMPLES: &str = "\
Examples:
  cellblock exec -c 'print(\"hello\"); 6 * 7'
  cellblock exec script.py --workspace data --timeout 5min
  cellblock exec script.py -- --rows 10 input.csv
  echo 'sum(range(10))' | cellblock exec
  cellblock exec -c 'math.sqrt(n)' --import math --var 'n=3' --json
  cellblock exec --env requirements.txt script.py

A script whose header names its dependencies (PEP 723) runs in an environment with these.

Exit status:
  0 success (also sys.exit(0)), 1 failure (an exception, also sys.exit(1)), 124 time-out,
  130 interrupted, 128+n ended by signal n, the code itself for os._exit(code) (1 for 0),
  2 wrong usage, 3 could not start";

/// Runs the snippet.
pub(crate) fn run(args: ExecArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let source = Source::read(args.code.as_deref(), args.file.as_deref())?;
    // One thread is enough, and the quickest to start.
    let runtime = runtime::on_this_thread()?;
    let outcome = runtime.block_on(execute(&args, source, console));
    // A thread may still wait for a line on standard input.
    runtime.shutdown_background();
    outcome.map(ExitCode::from)
}

async fn execute(args: &ExecArgs, source: Source, console: &Console) -> anyhow::Result<u8> {
    let config = ConfigArgs::default().load()?;
    let options = SessionOptions {
        // There is no second cell that a checkpoint could be for.
        strategy: Strategy::Direct,
        journal: args.journal.into(),
        ..args.session.settled(&config)?.options()?
    };
    let limit = options.limits.wall;
    let mut signals = Signals::new()?;
    let builder = args.python.settled(&config)?.host_builder(Preload::None);
    let preparing = args.environment.build(builder, Some(&source.code), console);
    let host = match signals.or(preparing).await {
        Ok(host) => host?,
        Err(stopped) => return stopped_status(stopped),
    };
    let session = match signals.or(host.open(options)).await {
        Ok(session) => session?,
        Err(stopped) => return stopped_status(stopped),
    };
    let follower = Follower {
        console,
        show: if args.form.json || args.form.for_model {
            Show::Nothing
        } else {
            Show::Live
        },
        asker: asker(source.leaves_stdin, console),
        second_interrupt: SecondInterrupt::Ends,
    };
    let followed = match follower
        .run(&session, args.cell(&source), &mut signals)
        .await
    {
        Ok(followed) => followed,
        Err(stopped) => return stopped_status(stopped),
    };
    // Told before the session is closed: nobody should wait for our cleaning up.
    let told = args
        .tell(&followed, &source.code, limit, &session, console)
        .await;
    if lacks_a_module(&followed.result) && args.python.lacks_packages(&host) {
        console.hint(SETUP_HINT);
    }
    session.close().await;
    told?;
    if is_plain_exit(&followed.result) {
        return Ok(0);
    }
    let CellResult {
        status: outcome,
        exit_code,
        signal,
        ..
    } = followed.result;
    Ok(status(outcome, exit_code, signal))
}

impl ExecArgs {
    fn cell(&self, source: &Source) -> Cell {
        let cell = Cell::new(source.code.clone());
        let from_stdin = || (!self.arguments.is_empty()).then(|| "-".to_owned());
        match source.file.clone().or_else(from_stdin) {
            Some(name) => cell.script(Script {
                name,
                arguments: self.arguments.clone(),
            }),
            None => cell,
        }
    }

    async fn tell(
        &self,
        followed: &Followed,
        code: &str,
        limit: Duration,
        session: &Session,
        console: &Console,
    ) -> anyhow::Result<()> {
        let result = &followed.result;
        if self.form.json {
            console.print_json(result)?;
            return Ok(());
        }
        if self.form.for_model {
            let time_limit = Some(limit.as_secs_f64());
            let options = ForModel {
                locale: self.form.locale,
                time_limit,
                ..ForModel::default()
            };
            console.print_guest(&format!("{}\n", result.for_model(code, &options)))?;
            return Ok(());
        }
        if !is_plain_exit(result) {
            print_outcome(followed, limit, console)?;
        } else if followed.is_mid_line && console.out_is_terminal() {
            console.print("\n")?;
        }
        save_pictures(followed, session, console).await;
        if self.verbose || console.err_is_terminal() {
            print_files(followed, session.workspace(), console);
        }
        if self.verbose {
            let usage = &result.usage;
            let line = format!(
                "{} in {} ({} of CPU), {} of memory, isolation {}",
                result.status,
                milliseconds(usage.wall_ms),
                milliseconds(usage.cpu_ms),
                size(usage.peak_bytes),
                result.isolation
            );
            console.say(&console.on_err(Style::Dim, &line));
        }
        Ok(())
    }
}

/// W7 of the contracts.
fn status(outcome: Status, exit_code: Option<i32>, signal: Option<i32>) -> u8 {
    match (outcome, signal, exit_code) {
        (Status::Success, ..) => 0,
        (Status::Failure, ..) => 1,
        (Status::Timeout, ..) => 124,
        (Status::Interrupted, ..) => 130,
        (Status::Crashed, Some(signal), _) => 128 + signal as u8,
        (Status::Crashed, None, Some(0) | None) => 1,
        // As the kernel does it: the low eight bits.
        (Status::Crashed, None, Some(code)) => code as u8,
    }
}

fn stopped_status(stopped: Stopped) -> anyhow::Result<u8> {
    match stopped {
        Stopped::Signal(signal) => Ok(128 + signal as u8),
        Stopped::Output(error) => Err(failure::output(error)),
        Stopped::Error(error) => Err(error.into()),
        Stopped::Ended(message) => Err(anyhow::Error::msg(message)),
    }
}

/// Questions are answered from standard input, unless that was the code.
fn asker(stdin_is_free: bool, console: &Console) -> Asker {
    let console = console.clone();
    Arc::new(move |prompt| {
        if !stdin_is_free {
            let reason = "standard input held the code; give the code with -c or as a file, then input() reads standard input";
            return Answer::Nothing(reason.to_owned());
        }
        // No newline: the answer stands behind the question.
        console.say_guest(prompt);
        let mut line = String::new();
        match io::stdin().lock().read_line(&mut line) {
            Ok(0) => Answer::Nothing("standard input has ended".to_owned()),
            Ok(_) => Answer::Text(line.trim_end_matches(['\r', '\n']).to_owned()),
            Err(error) => Answer::Nothing(format!("standard input cannot be read: {error}")),
        }
    })
}

/// Whether the code ended itself without a complaint: `sys.exit()` and `sys.exit(0)`.
fn is_plain_exit(result: &CellResult) -> bool {
    const PLAIN: [&str; 4] = [
        "SystemExit()",
        "SystemExit(0)",
        "SystemExit(None)",
        "SystemExit(False)",
    ];
    result.status == Status::Failure
        && result
            .error
            .as_ref()
            .is_some_and(|error| error.type_ == "SystemExit" && PLAIN.contains(&&*error.repr))
}

fn lacks_a_module(result: &CellResult) -> bool {
    let is_import_error = |name: &str| matches!(name, "ImportError" | "ModuleNotFoundError");
    result
        .error
        .as_ref()
        .is_some_and(|error| is_import_error(&error.type_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_status_tells_the_outcome() {
        let cases = [
            (Status::Success, None, None, 0),
            (Status::Failure, None, None, 1),
            (Status::Timeout, None, Some(9), 124),
            (Status::Interrupted, None, None, 130),
            (Status::Crashed, None, Some(11), 139),
            (Status::Crashed, Some(7), None, 7),
            (Status::Crashed, Some(139), None, 139),
            (Status::Crashed, Some(0), None, 1),
        ];
        for (outcome, exit_code, signal, code) in cases {
            assert_eq!(
                status(outcome, exit_code, signal),
                code,
                "{outcome} {exit_code:?} {signal:?}"
            );
        }
    }
}

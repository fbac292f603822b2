//! `cellblock exec`: one snippet, and an exit status that tells its outcome.

use crate::args::{EnvironmentArgs, PythonArgs, ResultArgs, SETUP_HINT, SessionArgs};
use crate::cell_run::{
    AskInput, CellRunner, CellStop, FinishedCell, InputAnswer, SecondCtrlC, ShowOutput, Signals,
    print_files, print_outcome, save_and_name_plots,
};
use crate::config::ConfigArgs;
use crate::failure::Usage;
use crate::terminal::{Console, HintPlace, Style, milliseconds, size};
use crate::{failure, process};
use cellblock::{
    Cell, CellResult, ForModel, MAX_CODE_BYTES, Preload, Script, Session, SessionOptions, Status,
};
use clap::Args;
use std::fs::File;
use std::io::{self, BufRead as _, IsTerminal as _, Read};
use std::path::{Path, PathBuf};
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
  cellblock exec report.ipynb --var 'month=\"May\"'

A script whose header names its dependencies (PEP 723) runs in an environment with these.
A notebook is run from top to bottom until a cell fails, and written back with its outputs; --var sets its parameters.

Exit status:
  0 success (also sys.exit(0)), 1 failure (an exception, also sys.exit(1)), 124 time-out,
  130 interrupted, 128+n ended by signal n, the code itself for os._exit(code) (1 for 0),
  2 wrong usage, 3 could not start";

/// Runs the snippet.
pub(crate) fn run(args: ExecArgs, console: &Console) -> anyhow::Result<ExitCode> {
    if is_notebook(args.file.as_ref()) {
        return run_notebook(&args, console);
    }
    let source = Source::read(args.code.as_deref(), args.file.as_deref())?;
    // One thread is enough, and the quickest to start.
    let runtime = process::runtime_on_this_thread()?;
    let outcome = runtime.block_on(execute(&args, source, console));
    // A thread may still wait for a line on standard input.
    runtime.shutdown_background();
    outcome.map(ExitCode::from)
}

/// Runs a notebook and writes its outputs back.
fn run_notebook(args: &ExecArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let config = ConfigArgs::default().load()?;
    let Some(path) = &args.file else {
        return Err(Usage::plain("there is no notebook to run"));
    };
    let notebook = NotebookFile {
        path,
        options: SessionOptions {
            journal: args.journal.into(),
            ..args.session.resolve(&config)?.options()?
        },
        python: &args.python.resolve(&config)?,
        environment: &args.environment,
    };
    let runtime = process::runtime_on_threads(2)?;
    let outcome = runtime.block_on(notebook.run(console));
    runtime.shutdown_background();
    outcome.map(ExitCode::from)
}

async fn execute(args: &ExecArgs, source: Source, console: &Console) -> anyhow::Result<u8> {
    let config = ConfigArgs::default().load()?;
    let options = SessionOptions {
        strategy: args.session.strategy_for_one_cell(),
        journal: args.journal.into(),
        ..args.session.resolve(&config)?.options()?
    };
    let limit = options.limits.wall;
    let mut signals = Signals::new()?;
    let builder = args.python.resolve(&config)?.host_builder(Preload::None);
    let preparing = args.environment.build(builder, Some(&source.code), console);
    let host = match signals.or(preparing).await {
        Ok(host) => host?,
        Err(stopped) => return stopped_status(stopped),
    };
    let session = match signals.or(host.open(options)).await {
        Ok(session) => session?,
        Err(stopped) => return stopped_status(stopped),
    };
    let cell_runner = CellRunner {
        console,
        show: if args.form.json || args.form.for_model {
            ShowOutput::Nothing
        } else {
            ShowOutput::Live
        },
        ask_input: ask_input(source.leaves_stdin, console),
        second_ctrl_c: SecondCtrlC::Ends,
    };
    let finished = match cell_runner
        .run(&session, args.cell(&source), &mut signals)
        .await
    {
        Ok(finished) => finished,
        Err(stopped) => return stopped_status(stopped),
    };
    // Printed before the session is closed, so that a reader does not wait for the clean-up.
    let told = args
        .tell(&finished, &source.code, limit, &session, console)
        .await;
    if lacks_module(&finished.result) && args.python.lacks_packages(&host) {
        console.hint(SETUP_HINT);
    }
    session.close().await;
    told?;
    if is_plain_exit(&finished.result) {
        return Ok(0);
    }
    let CellResult {
        status: outcome,
        exit_code,
        signal,
        ..
    } = finished.result;
    Ok(exit_status(outcome, exit_code, signal))
}

impl ExecArgs {
    fn cell(&self, source: &Source) -> Cell {
        let cell = Cell::new(source.code.clone());
        // As Python names code that has no file.
        let without_file = if self.code.is_some() { "-c" } else { "-" };
        let with_arguments = || (!self.arguments.is_empty()).then(|| without_file.to_owned());
        match source.file.clone().or_else(with_arguments) {
            Some(name) => cell.script(Script {
                name,
                arguments: self.arguments.clone(),
            }),
            None => cell,
        }
    }

    async fn tell(
        &self,
        finished: &FinishedCell,
        code: &str,
        limit: Duration,
        session: &Session,
        console: &Console,
    ) -> anyhow::Result<()> {
        let result = &finished.result;
        if self.form.json {
            console.print_json(result)?;
            return Ok(());
        }
        if self.form.for_model {
            let options = ForModel {
                locale: self.form.locale,
                time_limit: Some(limit),
                ..ForModel::default()
            };
            console.print_guest(&format!("{}\n", result.for_model(code, &options)))?;
            return Ok(());
        }
        if !is_plain_exit(result) {
            let workspace = self.session.workspace_kind();
            print_outcome(finished, limit, HintPlace::Exec, workspace, console)?;
        } else if finished.is_mid_line && console.out_is_terminal() {
            console.print("\n")?;
        }
        save_and_name_plots(finished, session, console).await;
        if self.verbose || console.err_is_terminal() {
            print_files(finished, session.workspace(), console);
        }
        if self.verbose {
            let usage = &result.usage;
            let line = format!(
                "{} in {} ({} of CPU), {} of memory, isolation {}",
                result.status,
                milliseconds(usage.wall),
                milliseconds(usage.cpu),
                size(usage.peak_bytes),
                result.isolation
            );
            console.say(&console.on_err(Style::Dim, &line));
        }
        Ok(())
    }
}

/// The exit status that tells how a cell ended: W7 of the contracts.
pub(super) fn exit_status(outcome: Status, exit_code: Option<i32>, signal: Option<i32>) -> u8 {
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

pub(super) fn stopped_status(stopped: CellStop) -> anyhow::Result<u8> {
    match stopped {
        CellStop::Signal(signal) => Ok(128 + signal as u8),
        CellStop::Output(error) => Err(failure::output(error)),
        CellStop::Error(error) => Err(error.into()),
        CellStop::Ended(message) => Err(anyhow::Error::msg(message)),
    }
}

/// Questions are answered from standard input, unless that was the code.
fn ask_input(stdin_is_free: bool, console: &Console) -> AskInput {
    let console = console.clone();
    Arc::new(move |prompt| {
        if !stdin_is_free {
            let reason = "standard input held the code; give the code with -c or as a file, then input() reads standard input";
            return InputAnswer::Nothing(reason.to_owned());
        }
        // No newline: the answer stands behind the question.
        console.say_guest(prompt);
        let mut line = String::new();
        match io::stdin().lock().read_line(&mut line) {
            Ok(0) => InputAnswer::Nothing("standard input has ended".to_owned()),
            Ok(_) => InputAnswer::Text(line.trim_end_matches(['\r', '\n']).to_owned()),
            Err(error) => InputAnswer::Nothing(format!("standard input cannot be read: {error}")),
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

fn lacks_module(result: &CellResult) -> bool {
    let is_import_error = |name: &str| matches!(name, "ImportError" | "ModuleNotFoundError");
    result
        .error
        .as_ref()
        .is_some_and(|error| is_import_error(&error.type_))
}

/// A snippet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) code: String,
    /// Whether standard input is still there to answer questions of the code.
    pub(crate) leaves_stdin: bool,
    /// The file that holds the code, as the command line names it.
    pub(crate) file: Option<String>,
}

impl Source {
    /// Reads the code from where the command line says.
    pub(crate) fn read(code: Option<&str>, file: Option<&Path>) -> anyhow::Result<Source> {
        match (code, file) {
            (Some(code), _) => Ok(Source {
                code: code.to_owned(),
                leaves_stdin: true,
                file: None,
            }),
            (None, Some(path)) if path != Path::new("-") => {
                let name = path.display().to_string();
                let file = File::open(path).map_err(|error| unreadable(&name, &error))?;
                Ok(Source {
                    code: read_code(file, &name)?,
                    leaves_stdin: true,
                    file: Some(name),
                })
            }
            (None, None) if io::stdin().is_terminal() => Err(Usage::hinted(
                "there is no code to run",
                "give it with -c CODE, as a FILE, or on standard input; `cellblock repl` is a session at the terminal",
            )),
            (None, _) => Ok(Source {
                code: read_code(io::stdin().lock(), "standard input")?,
                leaves_stdin: false,
                file: None,
            }),
        }
    }
}

fn read_code(from: impl Read, name: &str) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    // One byte more than allowed is enough to know that it is too much.
    let most = MAX_CODE_BYTES as u64 + 1;
    from.take(most)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(name, &error))?;
    if bytes.len() > MAX_CODE_BYTES {
        let message = format!("{name} is too long: a cell has at most {MAX_CODE_BYTES} bytes");
        return Err(Usage::plain(message));
    }
    // Python, too, passes over a byte order mark.
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    match std::str::from_utf8(text) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => Err(Usage::hinted(
            format!(
                "{name} is not UTF-8: byte {} cannot be read",
                error.valid_up_to() + 1
            ),
            "save it as UTF-8",
        )),
    }
}

fn unreadable(name: &str, error: &io::Error) -> anyhow::Error {
    Usage::plain(format!("{name} cannot be read: {error}"))
}

/// A notebook that is to be run, and what it is run with.
#[cfg_attr(
    not(feature = "jupyter"),
    expect(dead_code, reason = "notebooks are not run in this program")
)]
pub(crate) struct NotebookFile<'a> {
    pub(crate) path: &'a Path,
    pub(crate) options: SessionOptions,
    pub(crate) python: &'a PythonArgs,
    pub(crate) environment: &'a EnvironmentArgs,
}

/// Whether a file is a notebook, by its name.
fn is_notebook(path: Option<&PathBuf>) -> bool {
    path.is_some_and(|path| path.extension().is_some_and(|ending| ending == "ipynb"))
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
                exit_status(outcome, exit_code, signal),
                code,
                "{outcome} {exit_code:?} {signal:?}"
            );
        }
    }
}

//! `cellblock repl`: a session at the terminal.

mod branches;
mod editor;
mod help_lines;
mod magics;
mod questions;
mod shell;

use crate::args::{EnvironmentArgs, PythonArgs, SETUP_HINT, SessionArgs};
use crate::cell_run::Signals;
use crate::config::ConfigArgs;
use crate::process;
use crate::python_syntax::Blocks;
use crate::terminal::{Console, Style, plural};
use cellblock::Preload;
use clap::Args;
use editor::{Editor, Prompt, Typed};
use questions::Questions;
use shell::AfterInput;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::Runtime;

pub(crate) use shell::Shell;

/// The time without input after which a session at the terminal ends: a week, since a person may leave it open.
pub(crate) const REPL_IDLE_LIMIT: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplArgs {
    #[command(flatten)]
    session: SessionArgs,
    /// Keep no journal: the session cannot be restored when this program is killed
    #[arg(long, help_heading = "Session")]
    no_journal: bool,
    #[command(flatten)]
    python: PythonArgs,
    #[command(flatten)]
    environment: EnvironmentArgs,
}

const EXAMPLES: &str = "\
At the prompt: Tab completes, NAME? shows help and NAME?? the source, _ is the last value, a blank line ends a block, Ctrl-C stops a cell or clears the line, Ctrl-D ends.
%help lists the commands that begin with %; a line that begins with ! goes to the shell. When standard input is no terminal, each statement in it is a cell.

Examples:
  cellblock repl
  cellblock repl --workspace . --import np --timeout 10min
  cellblock repl < script.py";

/// Runs the prompt until its input ends.
pub(crate) fn run(args: ReplArgs, console: Console) -> anyhow::Result<ExitCode> {
    let is_interactive = io::stdin().is_terminal();
    let runtime = process::runtime_on_threads(1)?;
    let config = ConfigArgs::default().load()?;
    let python = args.python.resolve(&config)?;
    let mut options = args.session.resolve(&config)?.options()?;
    options.limits.idle = REPL_IDLE_LIMIT;
    options.journal = (!args.no_journal).into();
    let shell = runtime.block_on(async {
        // Imports at the start would delay the first prompt.
        let preparing = args.environment.host(&python, Preload::Standard, &console);
        let host = preparing.await?;
        Shell::open(host, options, console.clone(), Signals::only_interrupts()?).await
    })?;
    if is_interactive {
        print_banner(&python, &shell, &console);
    } else if python.lacks_packages(shell.host()) {
        console.hint(SETUP_HINT);
    }
    run_prompt(runtime, shell)
}

/// Takes input until there is no more, then ends the session.
pub(crate) fn run_prompt(runtime: Runtime, mut shell: Shell) -> anyhow::Result<ExitCode> {
    let outcome = if io::stdin().is_terminal() {
        read_terminal(&runtime, &mut shell)
    } else {
        read_stdin(&runtime, &mut shell)
    };
    runtime.block_on(shell.close());
    runtime.shutdown_background();
    outcome
}

/// Reads cells from a person at a terminal.
fn read_terminal(runtime: &Runtime, shell: &mut Shell) -> anyhow::Result<ExitCode> {
    let questions = Questions::new(runtime.handle().clone(), shell.current_session());
    let mut editor = Editor::new(shell.names(), questions, shell.console())?;
    loop {
        shell.show_logs();
        let prompt = if shell.is_armed() {
            Prompt::Armed
        } else {
            Prompt::NotArmed
        };
        match editor.read(prompt)? {
            Typed::Nothing => {}
            Typed::End => return Ok(ExitCode::SUCCESS),
            Typed::Input(text) => match runtime.block_on(shell.run_input(&text))? {
                AfterInput::Go => {}
                AfterInput::Quit(status) => return Ok(status),
            },
        }
    }
}

/// Reads cells from a file or a program.
fn read_stdin(runtime: &Runtime, shell: &mut Shell) -> anyhow::Result<ExitCode> {
    let mut blocks = Blocks::default();
    // A line such as `%%time`, which belongs to the next statement.
    let mut cell_magic: Option<String> = None;
    let mut lines = io::stdin().lock().lines();
    loop {
        let line = lines.next().transpose()?;
        let cells = match &line {
            Some(line) if blocks.is_empty() && line.starts_with("%%") => {
                cell_magic = Some(line.clone());
                continue;
            }
            Some(line) if blocks.is_empty() && line.starts_with(['%', '!']) => vec![line.clone()],
            Some(line) => blocks.push(line),
            None => blocks.finish().into_iter().collect(),
        };
        for cell in cells {
            let cell = match cell_magic.take() {
                Some(magic) => format!("{magic}\n{cell}"),
                None => cell,
            };
            if let AfterInput::Quit(status) = runtime.block_on(shell.run_input(&cell))? {
                return Ok(status);
            }
        }
        if line.is_none() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

fn print_banner(python: &PythonArgs, shell: &Shell, console: &Console) {
    let host = shell.host();
    let environment = host.environment();
    let packages = match environment.packages.len() {
        0 => "the standard library".to_owned(),
        count => plural(count as u64, "package"),
    };
    let version = env!("CARGO_PKG_VERSION");
    let title = console.on_err(Style::Heading, &format!("Cellblock {version}"));
    console.say(&format!(
        "{title} · Python {} with {packages} · isolation {}",
        environment.interpreter.version,
        shell.rung()
    ));
    console.say(&format!("workspace {}", shell.workspace().display()));
    if let Some(journal) = shell.session().journal() {
        let id = journal.id;
        console.say(&format!("journal {id} (`cellblock sessions`)"));
    }
    if python.lacks_packages(host) {
        console.hint(SETUP_HINT);
    }
    console.say(&console.on_err(Style::Dim, "%help for help, Ctrl-D to end"));
}

//! `cellblock sessions restore`.

use crate::args::PythonArgs;
use crate::cell_run::Signals;
use crate::commands::repl::{REPL_IDLE_LIMIT, Shell, run_prompt};
use crate::process;
use crate::terminal::{Console, Style, plural};
use cellblock::journal::{CellFate, Journal, Journals, Restore, RestoreReport, Restored};
use cellblock::{Host, Preload};
use clap::Args;
use serde_json::{Value, json};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RestoreArgs {
    /// The id of a journal, or its beginning, or `last`
    id: String,
    /// Only replay, say what differs, and end: with 0 if nothing does, else with 1
    #[arg(long)]
    check: bool,
    /// Print what differs as one JSON object
    #[arg(long, requires = "check")]
    json: bool,
    /// Work in this directory, which may be the one the session worked in
    #[arg(short, long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Keep no journal of the new session
    #[arg(long)]
    no_journal: bool,
    #[command(flatten)]
    python: PythonArgs,
}

const EXAMPLES: &str = "\
The cells that were kept are run again, in order, and their results are compared with the recorded ones. Tools and input() \
give the recorded answers. Cells that were undone, crashed or ran out of time are left out: they left no state. Then a prompt \
opens on the new session.

A session that began in an empty directory gets a fresh one. One that worked in a directory of yours works in a copy of \
it, as it is now, unless --workspace names it.

Examples:
  cellblock sessions restore last
  cellblock sessions restore k3f9 --check
  cellblock sessions restore k3f9 --workspace .";

pub(super) fn run(
    args: &RestoreArgs,
    journals: &Journals,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    let journal = journals.find(&args.id)?.read()?;
    let runtime = process::runtime_on_threads(1)?;
    let outcome = runtime.block_on(async {
        let mut signals = Signals::only_interrupts()?;
        let host = args.host(&journal)?;
        let mut how = Restore::default()
            .idle(REPL_IDLE_LIMIT)
            .journal(!args.no_journal && !args.check);
        if let Some(workspace) = &args.workspace {
            how = how.workspace(workspace);
        }
        let told = |text: &str| console.say(&console.on_err(Style::Dim, text));
        let count = journal.summary().kept().count();
        let mut begun = 0;
        let replay = how.run_with(&host, &journal, |cell| {
            begun += 1;
            if console.err_is_terminal() {
                told(&format!(
                    "replaying cell {} ({begun} of {count})",
                    cell.number
                ));
            }
        });
        match signals.or(replay).await {
            Ok(restored) => anyhow::Ok(Some((host, restored?, signals))),
            // Ctrl-C.
            Err(_) => Ok(None),
        }
    });
    let (host, restored, signals) = match outcome {
        Ok(Some(restored)) => restored,
        // Sessions end with this process.
        Ok(None) => {
            runtime.shutdown_background();
            return Ok(ExitCode::from(130));
        }
        Err(error) => {
            runtime.shutdown_background();
            return Err(error);
        }
    };
    if args.check {
        let told = args.tell(&journal, &restored.report, console);
        let is_same = restored.report.is_same();
        runtime.block_on(restored.session.close());
        runtime.shutdown_background();
        told?;
        return Ok(ExitCode::from(u8::from(!is_same)));
    }
    say(
        &journal,
        &restored.report,
        &mut |line| console.say(line),
        console,
    );
    let Restored {
        session, options, ..
    } = restored;
    let adopted = Shell::adopt(host, session, options, console.clone(), signals);
    let shell = runtime.block_on(adopted);
    run_prompt(runtime, shell)
}

impl RestoreArgs {
    /// The Python that the session ran on, as far as it is there and nothing else is asked for.
    fn host(&self, journal: &Journal) -> Result<Host, cellblock::Error> {
        let used = &journal.opened.python;
        let mut python = self.python.clone();
        if !used.packages && python.python.is_none() {
            python.stdlib = true;
            python.python = Some(used.executable.clone()).filter(|path| path.exists());
        }
        python.host(Preload::Standard)
    }

    fn tell(&self, journal: &Journal, report: &RestoreReport, console: &Console) -> io::Result<()> {
        if self.json {
            return console.print_json(&as_json(journal, report));
        }
        let mut text = String::new();
        let mut add = |line: &str| {
            text.push_str(line);
            text.push('\n');
        };
        say(journal, report, &mut add, console);
        console.print_guest(&text)
    }
}

fn as_json(journal: &Journal, report: &RestoreReport) -> Value {
    let left_out = report.left_out.iter();
    let left_out: Vec<Value> = left_out
        .map(|left_out| json!({"cell": left_out.cell, "fate": left_out.fate}))
        .collect();
    json!({
        "id": journal.id, "session": journal.session, "replayed": report.replayed, "left_out": left_out,
        "differences": report.differences, "incomplete": report.incomplete,
    })
}

/// What came of a replay, line by line.
fn say(journal: &Journal, report: &RestoreReport, line: &mut dyn FnMut(&str), console: &Console) {
    let left_out = match report.left_out.len() {
        0 => String::new(),
        count => format!(", {} left out", plural(count as u64, "cell")),
    };
    line(&format!(
        "session `{}` from journal {}: {} replayed{left_out}",
        journal.session,
        journal.id,
        plural(report.replayed.len() as u64, "cell")
    ));
    for left_out in &report.left_out {
        if matches!(left_out.fate, CellFate::Unfinished | CellFate::Lost) {
            line(&format!(
                "left out: cell {}, {}",
                left_out.cell, left_out.fate
            ));
        }
    }
    for difference in &report.differences {
        let text = difference.to_string();
        line(&format!("differs: {}", console.safe_on_err(&text)));
    }
    if report.differences.is_empty() {
        line("nothing differs");
    }
    if let Some(problem) = &report.incomplete {
        line(&format!("the journal is not complete: {problem}"));
    }
}

//! The commands that begin with `%`.

use super::shell::{AfterInput, Shell, Timing};
use crate::terminal::{Style, size};
use std::process::ExitCode;

/// One of them. A new one is a line in [`MAGICS`] and an arm in [`run_magic`].
pub(crate) struct Magic {
    pub(crate) name: &'static str,
    usage: &'static str,
    does: &'static str,
    action: MagicAction,
}

enum MagicAction {
    Vars,
    Files,
    Reset,
    Time,
    TimeIt,
    Undo,
    Checkpoints,
    Fork,
    Switch,
    Pip,
    Help,
    Quit,
}

/// All of them, in the order of `%help`.
pub(crate) const MAGICS: &[Magic] = &[
    Magic {
        name: "vars",
        usage: "%vars",
        does: "list the variables",
        action: MagicAction::Vars,
    },
    Magic {
        name: "files",
        usage: "%files",
        does: "list the files of the workspace",
        action: MagicAction::Files,
    },
    Magic {
        name: "time",
        usage: "%time CODE",
        does: "run code and say what it cost",
        action: MagicAction::Time,
    },
    Magic {
        name: "timeit",
        usage: "%timeit CODE",
        does: "run code many times and say how long one run takes",
        action: MagicAction::TimeIt,
    },
    Magic {
        name: "reset",
        usage: "%reset",
        does: "forget all variables; files stay",
        action: MagicAction::Reset,
    },
    Magic {
        name: "undo",
        usage: "%undo [N]",
        does: "take back the last N cells (1), with their files",
        action: MagicAction::Undo,
    },
    Magic {
        name: "checkpoints",
        usage: "%checkpoints",
        does: "list what can be gone back to",
        action: MagicAction::Checkpoints,
    },
    Magic {
        name: "fork",
        usage: "%fork",
        does: "go on in a copy of the session, with files of its own",
        action: MagicAction::Fork,
    },
    Magic {
        name: "switch",
        usage: "%switch [ID]",
        does: "go on in another session, or list them",
        action: MagicAction::Switch,
    },
    Magic {
        name: "pip",
        usage: "%pip install X",
        does: "install packages; variables stay",
        action: MagicAction::Pip,
    },
    Magic {
        name: "help",
        usage: "%help",
        does: "list these commands",
        action: MagicAction::Help,
    },
    Magic {
        name: "quit",
        usage: "%quit",
        does: "end the session (also Ctrl-D)",
        action: MagicAction::Quit,
    },
];

/// Does what a line that begins with `%` says. A second `%` makes the lines below it the code: `%%time`.
pub(crate) async fn run_magic(shell: &mut Shell, input: &str) -> anyhow::Result<AfterInput> {
    let line = input.strip_prefix('%').unwrap_or(input);
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    if input.starts_with('%') && !matches!(name, "time" | "timeit") {
        shell.console().error(&format!(
            "there is no %%{name}; there are %%time and %%timeit"
        ));
        return Ok(AfterInput::Go);
    }
    let Some(magic) = MAGICS.iter().find(|magic| magic.name == name) else {
        shell
            .console()
            .error(&format!("there is no %{name}; %help lists what there is"));
        return Ok(AfterInput::Go);
    };
    match magic.action {
        MagicAction::Vars => variables(shell).await,
        MagicAction::Files => files(shell).await,
        MagicAction::Time | MagicAction::TimeIt if rest.trim().is_empty() => {
            shell
                .console()
                .error(&format!("%{name} needs code: %{name} sum(range(10**6))"));
            Ok(AfterInput::Go)
        }
        MagicAction::TimeIt => match TimedStatement::parse(rest.trim()) {
            Some(timed) => shell.run_cell(&timed.code(), Timing::Hidden).await,
            None => {
                shell.console().error(
                    "%timeit takes a number of runs and of repetitions before the code: %timeit -n 100 -r 3 sum(range(10))",
                );
                Ok(AfterInput::Go)
            }
        },
        MagicAction::Time => shell.run_cell(rest.trim(), Timing::Shown).await,
        MagicAction::Reset => shell.reset().await,
        MagicAction::Undo => match rest.trim() {
            "" => shell.undo(1).await,
            count => match count.parse() {
                Ok(count) if count > 0 => shell.undo(count).await,
                _ => {
                    shell
                        .console()
                        .error("%undo takes a number of cells: %undo 2");
                    Ok(AfterInput::Go)
                }
            },
        },
        MagicAction::Checkpoints => shell.checkpoints().await,
        MagicAction::Fork => shell.fork().await,
        MagicAction::Switch => shell.switch(rest.trim()).await,
        MagicAction::Pip => install(shell, rest).await,
        MagicAction::Help => help(shell),
        MagicAction::Quit => Ok(AfterInput::Quit(ExitCode::SUCCESS)),
    }
}

/// Code that runs a statement until it has a stable time, and prints the best one. It leaves no names in the session.
const TIMING_PROGRAM: &str = "\
import timeit
timer = timeit.Timer(statement, globals=names)
loops = loops or timer.autorange()[0]
best = min(timer.repeat(repeats, loops)) / loops
unit, factor = next((u, f) for u, f in (('s', 1), ('ms', 1e3), ('µs', 1e6), ('ns', 1e9)) if best * f >= 1 or u == 'ns')
print(f'{best * factor:.3g} {unit} for one run (the best of {repeats} times {loops:,} runs)')
";

/// A statement of `%timeit`, with the options that it has in IPython.
struct TimedStatement<'a> {
    code: &'a str,
    /// The runs of one measurement; 0 for as many as a stable time needs.
    loops: u32,
    /// How often it is measured.
    repeats: u32,
}

impl<'a> TimedStatement<'a> {
    /// `None` where an option has no number or no code comes after it.
    fn parse(line: &'a str) -> Option<TimedStatement<'a>> {
        const REPEATS: u32 = 5;
        let mut timed = TimedStatement {
            code: line,
            loops: 0,
            repeats: REPEATS,
        };
        while let Some((option, rest)) = split_option(timed.code) {
            let end = rest.find(|it: char| !it.is_ascii_digit())?;
            let number = rest[..end].parse().ok().filter(|&number| number > 0)?;
            match option {
                "-n" => timed.loops = number,
                _ => timed.repeats = number,
            }
            timed.code = rest[end..].strip_prefix(char::is_whitespace)?.trim_start();
        }
        (!timed.code.is_empty()).then_some(timed)
    }

    /// Code of the session that measures it.
    fn code(&self) -> String {
        let TimedStatement { loops, repeats, .. } = self;
        let program = python_text(TIMING_PROGRAM);
        let statement = python_text(self.code);
        format!(
            "exec({program}, {{'statement': {statement}, 'names': globals(), 'loops': {loops}, 'repeats': {repeats}}})"
        )
    }
}

/// An option of `%timeit` and what comes after it. `-numbers` is none.
fn split_option(code: &str) -> Option<(&str, &str)> {
    let (option, rest) = code.split_at_checked(2)?;
    let is_name = rest.starts_with(|c: char| c.is_alphabetic() || c == '_');
    (matches!(option, "-n" | "-r") && !is_name).then(|| (option, rest.trim_start()))
}

/// Code that runs a line of the shell in the session. What it prints goes where the cell's output goes.
pub(super) fn shell_code(line: &str) -> String {
    let line = python_text(line);
    format!("__import__('subprocess').run({line}, shell=True) and None")
}

/// A text as Python code. JSON's form of a text is Python's too.
fn python_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The person at the prompt has agreed by typing it.
async fn install(shell: &mut Shell, line: &str) -> anyhow::Result<AfterInput> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let packages = match words.split_first() {
        Some((&"install", packages)) if !packages.is_empty() => packages,
        _ => {
            let only = "%pip only installs: %pip install httpx 'polars>=1.0'";
            shell.console().error(only);
            return Ok(AfterInput::Go);
        }
    };
    let bare = packages.iter().map(|word| word.trim_matches(['\'', '"']));
    match shell.install(bare).await {
        Ok(told) => shell.console().say(&told),
        Err(error) => {
            let console = shell.console();
            console.error(&console.safe_on_err(&error.to_string()));
            if let Some(hint) = error.hint() {
                console.hint(&hint);
            }
        }
    }
    Ok(AfterInput::Go)
}

async fn variables(shell: &mut Shell) -> anyhow::Result<AfterInput> {
    let variables = match shell.session().vars().await {
        Ok(variables) => variables,
        Err(error) => return shell.recover(error.into()).await,
    };
    let console = shell.console();
    let rows = variables
        .iter()
        .map(|one| [&one.name, &one.type_, &one.summary].map(|text| console.name_on_out(text)));
    let rows: Vec<_> = rows.collect();
    let widest = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let name_width = widest(0).unwrap_or(0).min(30);
    let type_width = widest(1).unwrap_or(0).min(30);
    for [name, type_, summary] in &rows {
        let line = format!("{name:<name_width$}  {type_:<type_width$}  {summary}");
        console.print_guest(&format!("{}\n", line.trim_end()))?;
    }
    if variables.is_empty() {
        console.say(&console.on_err(Style::Dim, "no variables"));
    }
    Ok(AfterInput::Go)
}

async fn files(shell: &mut Shell) -> anyhow::Result<AfterInput> {
    let files = match shell.session().list_files().await {
        Ok(files) => files,
        Err(error) => return shell.recover(error.into()).await,
    };
    let console = shell.console();
    console.say(&console.on_err(Style::Dim, &format!("in {}", shell.workspace().display())));
    for file in &files {
        let name = console.name_on_out(&file.path);
        console.print_guest(&format!("{:>10}  {name}\n", size(file.bytes)))?;
    }
    if files.is_empty() {
        console.say(&console.on_err(Style::Dim, "no files"));
    }
    Ok(AfterInput::Go)
}

fn help(shell: &Shell) -> anyhow::Result<AfterInput> {
    for magic in MAGICS {
        shell
            .console()
            .print_line(&format!("{:<18} {}", magic.usage, magic.does))?;
    }
    shell
        .console()
        .print_line("%%time, %%timeit   the same for the lines below, up to a blank one")?;
    shell.console().print_line(
        "NAME?, NAME??      show help about an object, and its source; _ is the last value",
    )?;
    shell
        .console()
        .print_line("!LINE              run a line of the shell in the session")?;
    shell
        .console()
        .print_line("Anything else is Python. Plots are saved in the workspace, below plots/.")?;
    Ok(AfterInput::Go)
}

#[cfg(test)]
mod tests {
    use super::TimedStatement;

    fn parsed(line: &str) -> Option<(&str, u32, u32)> {
        TimedStatement::parse(line).map(|timed| (timed.code, timed.loops, timed.repeats))
    }

    #[test]
    fn timeit_takes_numbers_of_runs_and_repetitions() {
        assert_eq!(parsed("x + 1"), Some(("x + 1", 0, 5)));
        assert_eq!(parsed("-numbers"), Some(("-numbers", 0, 5)));
        assert_eq!(parsed("-n 10 -r3 x"), Some(("x", 10, 3)));
        for wrong in ["-n", "-n 10", "-n x", "-r 0 x", "-n 99999999999 x"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}

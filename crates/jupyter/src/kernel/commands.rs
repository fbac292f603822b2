//! Commands of a notebook about its session: `%undo`, `%checkpoints`, `%fork`, `%switch`.

use super::execution::Counts;
use super::sessions::Sessions;
use cellblock_protocol::{CheckpointList, FileChange, Undone, VariableChange};

/// The longest name of a fork.
const MAX_NAME_BYTES: usize = 64;

/// A cell that is about the session, and is not run in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Takes back the last cells.
    Undo(usize),
    /// Lists the states that can be gone back to.
    Checkpoints,
    /// Keeps a copy of the session under a name.
    Fork(String),
    /// Runs the next cells in another session, or lists them.
    Switch(Option<String>),
    /// The words after a command are wrong.
    Wrong(&'static str),
}

impl Command {
    /// The command of a cell; none where the cell is Python, or has more than one line.
    pub(super) fn parse(code: &str) -> Option<Self> {
        let line = code.trim();
        if line.contains('\n') {
            return None;
        }
        let mut words = line.split_whitespace();
        let (name, argument) = (words.next()?, words.next());
        if words.next().is_some() {
            return None;
        }
        let is_name = |text: &str| {
            let fits = |letter: char| letter.is_alphanumeric() || "._-".contains(letter);
            text.len() <= MAX_NAME_BYTES && text.chars().all(fits)
        };
        Some(match (name, argument) {
            ("%undo", None) => Self::Undo(1),
            ("%undo", Some(count)) => match count.parse() {
                Ok(count @ 1..) => Self::Undo(count),
                _ => Self::Wrong("write %undo, or %undo N to take back N cells"),
            },
            ("%checkpoints", None) => Self::Checkpoints,
            ("%fork", Some(name)) if is_name(name) => Self::Fork(name.to_owned()),
            ("%fork", _) => Self::Wrong("write %fork NAME"),
            ("%switch", None) => Self::Switch(None),
            ("%switch", Some(name)) => Self::Switch(Some(name.to_owned())),
            _ => return None,
        })
    }

    /// Carries the command out. The text is for the notebook.
    pub(super) async fn run(
        self,
        sessions: &mut Sessions,
        counts: &Counts,
    ) -> Result<String, String> {
        match self {
            Self::Undo(count) => {
                let undone = sessions.current().await?.undo(count).await;
                let undone = undone.map_err(|error| error.to_string())?;
                Ok(undone_text(&undone, counts))
            }
            Self::Checkpoints => {
                let list = sessions.current().await?.checkpoints().await;
                let list = list.map_err(|error| error.to_string())?;
                Ok(checkpoints_text(&list, counts))
            }
            Self::Fork(name) => {
                let not_copied = sessions.fork(&name).await?;
                let current = sessions.name();
                let mut text = format!(
                    "`{name}` is a copy of `{current}` as it is now; %switch {name} runs cells there\n"
                );
                for what in not_copied {
                    text.push_str(&format!("  not copied: {what}\n"));
                }
                Ok(text)
            }
            Self::Switch(None) => {
                let names = sessions.names().into_iter();
                let mark = |name: &String| if name == sessions.name() { '*' } else { ' ' };
                Ok(names
                    .map(|name| format!("{} {name}\n", mark(&name)))
                    .collect())
            }
            Self::Switch(Some(name)) => {
                sessions.switch(&name)?;
                Ok(format!("cells run in `{name}` from now on\n"))
            }
            Self::Wrong(hint) => Err(hint.to_owned()),
        }
    }
}

/// The place in the notebook that a state stands for.
fn place(cell: u64, counts: &Counts) -> String {
    match (cell, counts.of_cell(cell)) {
        (_, Some(count)) => format!("after In [{count}]"),
        (0, None) => "at the beginning".to_owned(),
        (cell, None) => format!("after cell {cell} of the session"),
    }
}

fn undone_text(undone: &Undone, counts: &Counts) -> String {
    let mut text = format!("the state is that {}\n", place(undone.cell, counts));
    let mut add = |what: &str, names: Vec<String>| {
        if !names.is_empty() {
            text.push_str(&format!("  {what}: {}\n", names.join(", ")));
        }
    };
    let (variables, files) = (&undone.variables, &undone.files);
    add("variables back", variable_names(&variables.added));
    add("variables as before", variable_names(&variables.changed));
    add("variables gone", variable_names(&variables.removed));
    add("files back", file_names(&files.created));
    add("files as before", file_names(&files.changed));
    add("files gone", file_names(&files.deleted));
    add("not restored", undone.not_restored.clone());
    text
}

fn variable_names(changes: &[VariableChange]) -> Vec<String> {
    changes.iter().map(|change| change.name.clone()).collect()
}

fn file_names(changes: &[FileChange]) -> Vec<String> {
    changes.iter().map(|change| change.path.clone()).collect()
}

fn checkpoints_text(list: &CheckpointList, counts: &Counts) -> String {
    let mut text = format!("the next cell's checkpoint: {}", list.state.status);
    if let Some(reason) = &list.state.reason {
        text.push_str(&format!(" ({reason})"));
    }
    text.push('\n');
    for entry in &list.entries {
        let kilobytes = entry.bytes / 1000;
        let place = place(entry.cell, counts);
        text.push_str(&format!("  {place}: {kilobytes} kB\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_python() {
        assert_eq!(Command::parse(" %undo\n"), Some(Command::Undo(1)));
        assert_eq!(Command::parse("%undo 3"), Some(Command::Undo(3)));
        assert_eq!(
            Command::parse("%fork a-b"),
            Some(Command::Fork("a-b".to_owned()))
        );
        assert_eq!(Command::parse("%switch"), Some(Command::Switch(None)));
        for wrong in ["%undo 0", "%undo x", "%fork", "%fork a/b"] {
            assert!(
                matches!(Command::parse(wrong), Some(Command::Wrong(_))),
                "{wrong}"
            );
        }
        for python in ["", "x", "%timeit 1", "%undo\nx", "undo", "%checkpoints 1 2"] {
            assert_eq!(Command::parse(python), None, "{python}");
        }
    }
}

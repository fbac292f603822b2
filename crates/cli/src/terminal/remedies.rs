//! What helps against a limit or a wall in the place where an error is shown: the flag or the command, by its name there.

use cellblock::{CellResult, Status};

/// The command that shows an error to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// `cellblock exec`: the command can be run again with a flag.
    Exec,
    /// `cellblock repl`: some things can be done at the prompt; for others the session must be started anew.
    Repl,
    /// `cellblock ask`: the model writes the code, the person has the flags.
    Ask,
    /// `cellblock chat`: the same in a conversation.
    Chat,
    /// `cellblock mcp`: the client's model reads it, and can pass it on to the person who started the server.
    #[cfg_attr(
        not(feature = "mcp"),
        expect(dead_code, reason = "there are no clients over MCP")
    )]
    Mcp,
}

impl Place {
    /// Whether a model writes the code. A model chooses the time limit of a cell itself, and has the session's own hint about packages.
    fn has_model(self) -> bool {
        matches!(self, Place::Ask | Place::Chat | Place::Mcp)
    }
}

/// What a cell ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle<'a> {
    Memory,
    Disk,
    Processes,
    OpenFiles,
    Time,
    Network,
    Package(&'a str),
}

/// What helps in a place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Remedy {
    /// The line that says it.
    pub(crate) text: String,
    /// Whether the line takes the place of the session's own hint, which names a tool that a person does not have.
    pub(crate) replaces_hint: bool,
}

/// What helps here; nothing where no flag and no command would.
pub(crate) fn remedy(place: Place, result: &CellResult) -> Option<Remedy> {
    let obstacle = obstacle(result)?;
    if place.has_model() && matches!(obstacle, Obstacle::Time | Obstacle::Package(_)) {
        return None;
    }
    let flag = match obstacle {
        Obstacle::Memory => "--memory 8GB",
        Obstacle::Disk => "--disk 10GB",
        Obstacle::Processes => "--processes 256",
        Obstacle::OpenFiles => "--open-files 8192",
        Obstacle::Time => "--timeout 10min",
        Obstacle::Network => "--allow-net HOST",
        Obstacle::Package(module) => {
            let text = match place {
                Place::Exec => format!(
                    "`{module}` is not part of this session: run it with --env NAME, in an environment that has it (`cellblock env create`)"
                ),
                _ => format!(
                    "`{module}` is not part of this session: `%pip install {module}` installs it, where the package has the name of its module"
                ),
            };
            return Some(Remedy {
                text,
                replaces_hint: true,
            });
        }
    };
    let verb = match place {
        Place::Exec => "run it with",
        Place::Repl => "start `cellblock repl` with",
        Place::Ask => "start `cellblock ask` with",
        Place::Chat => "start `cellblock chat` with",
        Place::Mcp => "the person who set this server up can start `cellblock mcp` with",
    };
    let what = if flag.starts_with("--allow-net") {
        "let it reach a host"
    } else {
        "allow more"
    };
    Some(Remedy {
        text: format!("{verb} {flag} to {what}"),
        replaces_hint: false,
    })
}

fn obstacle(result: &CellResult) -> Option<Obstacle<'_>> {
    if result.status == Status::Timeout {
        return Some(Obstacle::Time);
    }
    let error = result.error.as_ref()?;
    match error.type_.as_str() {
        "MemoryLimit" => return Some(Obstacle::Memory),
        "DiskLimit" => return Some(Obstacle::Disk),
        "ModuleNotFoundError" => return missing_module(&error.value).map(Obstacle::Package),
        _ => {}
    }
    // The session's own words about an exception (`hints.py`).
    let hint = error.hint.as_deref()?;
    let found = [
        ("memory limit was reached", Obstacle::Memory),
        ("disk limit was reached", Obstacle::Disk),
        ("limit of processes and threads", Obstacle::Processes),
        ("limit of open files", Obstacle::OpenFiles),
        ("session has no network", Obstacle::Network),
        ("session may reach only", Obstacle::Network),
    ];
    let found = found.into_iter().find(|(words, _)| hint.contains(words))?;
    Some(found.1)
}

/// The package that `No module named 'package.module'` tells of. Code can make the error say anything: only a plain name is repeated.
fn missing_module(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("No module named '")?;
    let name = rest.split(['\'', '.']).next()?;
    let is_plain = name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
    (is_plain && !name.is_empty() && name.len() <= 60).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_name_of_a_module_is_repeated() {
        let named = |value| missing_module(value);
        assert_eq!(named("No module named 'polars'"), Some("polars"));
        assert_eq!(named("No module named 'a.b'"), Some("a"));
        for value in [
            "No module named ''",
            "No module named 'x; rm -rf ~'",
            "polars",
        ] {
            assert_eq!(named(value), None, "{value}");
        }
    }
}

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
    /// The kernel of `cellblock jupyter`: its flags are given when it is installed.
    #[cfg_attr(
        not(feature = "jupyter"),
        expect(dead_code, reason = "there are no notebooks")
    )]
    Kernel,
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
    let needs_no_flag = match obstacle {
        Obstacle::Time => place.has_model(),
        Obstacle::Package(_) => place.has_model() && offers_install(result),
        _ => false,
    };
    if needs_no_flag {
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
                Place::Mcp => format!(
                    "`{module}` is not part of this session: the person who set this server up can start `cellblock mcp` with --env NAME, for an environment that has it (`cellblock env create`)"
                ),
                Place::Kernel => format!(
                    "`{module}` is not part of this session: install the kernel again with `cellblock jupyter install -- --env NAME`, for an environment that has it (`cellblock env create`)"
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
    let with_flag = match place {
        Place::Exec => format!("run it with {flag}"),
        Place::Repl => format!("start `cellblock repl` with {flag}"),
        Place::Ask => format!("start `cellblock ask` with {flag}"),
        Place::Chat => format!("start `cellblock chat` with {flag}"),
        Place::Mcp => {
            format!("the person who set this server up can start `cellblock mcp` with {flag}")
        }
        Place::Kernel => {
            format!("install the kernel again with `cellblock jupyter install -- {flag}`")
        }
    };
    let what = if flag.starts_with("--allow-net") {
        "let it reach a host"
    } else {
        "allow more"
    };
    Some(Remedy {
        text: format!("{with_flag} to {what}"),
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

/// Whether the session has the tool for packages, by its own words about a package that is missing (`hints.py`).
fn offers_install(result: &CellResult) -> bool {
    let hint = result
        .error
        .as_ref()
        .and_then(|error| error.hint.as_deref());
    hint.is_none_or(|hint| !hint.contains("does not offer install_packages"))
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
    use serde_json::json;

    const NO_TOOL: &str = "Packages cannot be installed from a cell, and this session does not offer install_packages;";
    const TOOL: &str =
        "Packages cannot be installed from a cell; ask for them with install_packages.";

    fn result(type_: &str, value: &str, hint: &str) -> CellResult {
        let error = json!({
            "type": type_, "value": value, "repr": "", "traceback": "", "frames": [], "hint": hint,
        });
        serde_json::from_value(json!({
            "session": "s", "cell": 1, "status": "failure", "exit_code": null, "signal": null,
            "stdout": "", "stderr": "", "output": "", "truncated": null, "value": null, "displays": [],
            "error": error,
            "variables": {"added": [], "changed": [], "removed": []},
            "files": {"created": [], "changed": [], "deleted": []},
            "state": {"outcome": "kept", "checkpoint": {"status": "armed", "behind": 0, "reason": null}},
            "usage": {"wall_ms": 1.0, "cpu_ms": 1.0, "peak_bytes": 1, "stdout_bytes": 0, "stderr_bytes": 0},
            "tool_calls": [], "strategy": "process", "backend": "local", "isolation": "full",
        }))
        .unwrap()
    }

    #[test]
    fn every_place_names_its_own_way_to_more_memory() {
        let met = result("MemoryLimit", "", "");
        let told = |place| remedy(place, &met).unwrap().text;
        let by_place = [
            (Place::Exec, "run it with --memory 8GB to allow more"),
            (
                Place::Repl,
                "start `cellblock repl` with --memory 8GB to allow more",
            ),
            (
                Place::Ask,
                "start `cellblock ask` with --memory 8GB to allow more",
            ),
            (
                Place::Chat,
                "start `cellblock chat` with --memory 8GB to allow more",
            ),
            (
                Place::Mcp,
                "the person who set this server up can start `cellblock mcp` with --memory 8GB to allow more",
            ),
            (
                Place::Kernel,
                "install the kernel again with `cellblock jupyter install -- --memory 8GB` to allow more",
            ),
        ];
        for (place, text) in by_place {
            assert_eq!(told(place), text);
        }
    }

    #[test]
    fn a_model_is_sent_to_the_tool_for_packages_where_there_is_one() {
        let without = result("ModuleNotFoundError", "No module named 'x'", NO_TOOL);
        let with = result("ModuleNotFoundError", "No module named 'x'", TOOL);
        let told = |place, result| remedy(place, result).map(|remedy| remedy.text);
        assert_eq!(told(Place::Mcp, &with), None);
        assert_eq!(told(Place::Ask, &with), None);
        for (place, flag) in [
            (Place::Mcp, "`cellblock mcp` with --env NAME"),
            (Place::Exec, "run it with --env NAME"),
            (Place::Repl, "`%pip install x`"),
            (Place::Kernel, "`cellblock jupyter install -- --env NAME`"),
        ] {
            let text = told(place, &without).unwrap();
            assert!(text.contains(flag), "{place:?}: {text}");
        }
    }

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

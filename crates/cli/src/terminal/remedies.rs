//! What helps against a limit or a wall in the place where an error is shown: the flag or the command, by its name there.

use cellblock::{CellResult, Obstacle, Status};

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
enum Cause<'a> {
    /// A limit or a wall that this flag moves.
    Flag(&'static str),
    Time,
    /// A module that is not there, and whether the session offers a tool that installs packages.
    Module {
        name: &'a str,
        is_installable: bool,
    },
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
    let cause = cause(result)?;
    let needs_no_flag = match cause {
        Cause::Time => place.has_model(),
        Cause::Module { is_installable, .. } => place.has_model() && is_installable,
        Cause::Flag(_) => false,
    };
    if needs_no_flag {
        return None;
    }
    let flag = match cause {
        Cause::Flag(flag) => flag,
        Cause::Time => "--timeout 10min",
        Cause::Module { name: module, .. } => {
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

fn cause(result: &CellResult) -> Option<Cause<'_>> {
    if result.status == Status::Timeout {
        return Some(Cause::Time);
    }
    let error = result.error.as_ref()?;
    let obstacle = error.obstacle?;
    Some(match obstacle {
        Obstacle::Memory => Cause::Flag("--memory 8GB"),
        Obstacle::Disk => Cause::Flag("--disk 10GB"),
        Obstacle::Processes => Cause::Flag("--processes 256"),
        Obstacle::OpenFiles => Cause::Flag("--open-files 8192"),
        Obstacle::Network => Cause::Flag("--allow-net HOST"),
        Obstacle::Package | Obstacle::InstallablePackage => Cause::Module {
            name: missing_module(&error.value)?,
            is_installable: obstacle == Obstacle::InstallablePackage,
        },
    })
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

    fn result(type_: &str, value: &str, obstacle: Option<&str>) -> CellResult {
        let error = json!({
            "type": type_, "value": value, "repr": "", "traceback": "", "frames": [], "hint": "", "obstacle": obstacle,
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
        let met = result("MemoryLimit", "", Some("memory"));
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
        let missing =
            |obstacle| result("ModuleNotFoundError", "No module named 'x'", Some(obstacle));
        let (without, with) = (missing("package"), missing("installable_package"));
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
    fn every_limit_and_wall_has_its_flag_whatever_the_hint_says() {
        for (obstacle, flag) in [
            ("memory", "--memory 8GB"),
            ("disk", "--disk 10GB"),
            ("processes", "--processes 256"),
            ("open_files", "--open-files 8192"),
            ("network", "--allow-net HOST"),
        ] {
            let told = remedy(Place::Exec, &result("OSError", "", Some(obstacle))).unwrap();
            assert!(told.text.contains(flag), "{obstacle}: {}", told.text);
        }
        assert_eq!(remedy(Place::Exec, &result("OSError", "", None)), None);
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

//! What helps against a limit or a wall in the place where an error is shown: the flag or the command, by its name there.

use cellblock::{CellResult, Obstacle, Status};
use std::path::Path;

/// The command that shows an error to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HintPlace {
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

impl HintPlace {
    /// Whether a model writes the code. A model chooses the time limit of a cell itself, and has the session's own hint about packages.
    fn has_model(self) -> bool {
        matches!(self, HintPlace::Ask | HintPlace::Chat | HintPlace::Mcp)
    }

    /// How to get a session with this flag.
    fn with_flag(self, flag: &str) -> String {
        match self {
            HintPlace::Exec => format!("run it with {flag}"),
            HintPlace::Repl => format!("start `cellblock repl` with {flag}"),
            HintPlace::Ask => format!("start `cellblock ask` with {flag}"),
            HintPlace::Chat => format!("start `cellblock chat` with {flag}"),
            HintPlace::Mcp => {
                format!("the person who set this server up can start `cellblock mcp` with {flag}")
            }
            HintPlace::Kernel => {
                format!("install the kernel again with `cellblock jupyter install -- {flag}`")
            }
        }
    }

    /// How a file gets into the session.
    fn file(self) -> String {
        match self {
            HintPlace::Ask => self.with_flag("--file PATH"),
            HintPlace::Chat => "/attach PATH puts a file there".to_owned(),
            HintPlace::Exec | HintPlace::Repl | HintPlace::Mcp | HintPlace::Kernel => {
                let with_flag = self.with_flag("--workspace DIR");
                format!("{with_flag} to work in the directory of the file")
            }
        }
    }

    /// How this package gets into the session.
    fn package(self, package: &str) -> String {
        if self == HintPlace::Repl {
            return format!("`%pip install {package}` installs it");
        }
        let with_flag = self.with_flag("--env NAME");
        format!("{with_flag}, after `cellblock env create NAME {package}`")
    }
}

/// Whose directory the workspace of a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkspaceKind {
    /// One that was made for the session.
    Fresh,
    /// One that the person named. To name a directory helps no more.
    Named,
}

impl WorkspaceKind {
    pub(crate) fn of(directory: Option<&Path>) -> WorkspaceKind {
        match directory {
            Some(_) => WorkspaceKind::Named,
            None => WorkspaceKind::Fresh,
        }
    }
}

/// What a cell ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause<'a> {
    /// A limit that this flag raises.
    Limit(&'static str),
    /// A host that cannot be reached: the session has no network at all, or rules that do not name the host.
    Network {
        has_rules: bool,
    },
    Time,
    /// A file that is not in the session.
    File,
    /// A module that is not there, its package, and whether the session offers a tool that installs packages.
    Module {
        name: &'a str,
        package: &'a str,
        is_installable: bool,
    },
}

/// What helps in a place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Remedy {
    /// The line that says it.
    pub(crate) text: String,
    /// Whether the line takes the place of the session's own hint, which names a tool or an option that a person does not have.
    pub(crate) replaces_hint: bool,
}

/// What helps here; nothing where no flag and no command would.
pub(crate) fn remedy(
    place: HintPlace,
    workspace: WorkspaceKind,
    result: &CellResult,
) -> Option<Remedy> {
    let cause = cause(result)?;
    let has_no_flag = match cause {
        Cause::Time => place.has_model(),
        Cause::Module { is_installable, .. } => place.has_model() && is_installable,
        // In a chat a file can be attached in any case.
        Cause::File => workspace == WorkspaceKind::Named && place != HintPlace::Chat,
        Cause::Limit(_) | Cause::Network { .. } => false,
    };
    if has_no_flag {
        return None;
    }
    let (text, replaces_hint) = match cause {
        Cause::Limit(flag) => (format!("{} to allow more", place.with_flag(flag)), false),
        Cause::Time => {
            let with_flag = place.with_flag("--timeout 10min");
            (format!("{with_flag} to allow more"), false)
        }
        Cause::Network { has_rules: true } => {
            let with_flag = place.with_flag("--allow-net HOST");
            (format!("{with_flag} to let it reach a host"), false)
        }
        Cause::Network { has_rules: false } => {
            let with_flag = place.with_flag("--allow-net HOST");
            let text = format!("this session has no network: {with_flag} to let it reach a host");
            (text, true)
        }
        Cause::File => (
            format!(
                "the session sees only the files of its workspace: {}",
                place.file()
            ),
            true,
        ),
        Cause::Module { name, package, .. } => {
            let what = if name == package {
                format!("`{name}`")
            } else {
                format!("`{name}`, a module of the package {package},")
            };
            let text = format!(
                "{what} is not part of this session: {}",
                place.package(package)
            );
            (text, true)
        }
    };
    Some(Remedy {
        text,
        replaces_hint,
    })
}

fn cause(result: &CellResult) -> Option<Cause<'_>> {
    if result.status == Status::Timeout {
        return Some(Cause::Time);
    }
    let error = result.error.as_ref()?;
    let obstacle = error.obstacle?;
    Some(match obstacle {
        Obstacle::Memory => Cause::Limit("--memory 8GB"),
        Obstacle::Disk => Cause::Limit("--disk 10GB"),
        Obstacle::Processes => Cause::Limit("--processes 256"),
        Obstacle::OpenFiles => Cause::Limit("--open-files 8192"),
        Obstacle::Network => Cause::Network { has_rules: true },
        Obstacle::NoNetwork => Cause::Network { has_rules: false },
        Obstacle::File => Cause::File,
        Obstacle::Package | Obstacle::InstallablePackage => {
            let package = error.package.as_deref().filter(|name| is_plain(name));
            // An error of a library that wraps the one of the import has another text.
            let name = missing_module(&error.value).or(package)?;
            Cause::Module {
                name,
                package: package.unwrap_or(name),
                is_installable: obstacle == Obstacle::InstallablePackage,
            }
        }
    })
}

/// The module that `No module named 'module.part'` tells of. Code can make the error say anything: only a plain name is repeated.
fn missing_module(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("No module named '")?;
    let name = rest.split(['\'', '.']).next()?;
    is_plain(name).then_some(name)
}

/// Whether a text can be the name of a module or of a package, and nothing else.
fn is_plain(name: &str) -> bool {
    let has_only = name
        .chars()
        .all(|c| matches!(c, '_' | '-' | '.') || c.is_ascii_alphanumeric());
    let begins_well = name.starts_with(|c: char| c == '_' || c.is_ascii_alphanumeric());
    has_only && begins_well && name.len() <= 60
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
        let told = |place| remedy(place, WorkspaceKind::Fresh, &met).unwrap().text;
        let by_place = [
            (HintPlace::Exec, "run it with --memory 8GB to allow more"),
            (
                HintPlace::Repl,
                "start `cellblock repl` with --memory 8GB to allow more",
            ),
            (
                HintPlace::Ask,
                "start `cellblock ask` with --memory 8GB to allow more",
            ),
            (
                HintPlace::Chat,
                "start `cellblock chat` with --memory 8GB to allow more",
            ),
            (
                HintPlace::Mcp,
                "the person who set this server up can start `cellblock mcp` with --memory 8GB to allow more",
            ),
            (
                HintPlace::Kernel,
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
        let told =
            |place, result| remedy(place, WorkspaceKind::Fresh, result).map(|remedy| remedy.text);
        assert_eq!(told(HintPlace::Mcp, &with), None);
        assert_eq!(told(HintPlace::Ask, &with), None);
        for (place, flag) in [
            (HintPlace::Mcp, "`cellblock mcp` with --env NAME"),
            (HintPlace::Exec, "run it with --env NAME"),
            (HintPlace::Repl, "`%pip install x`"),
            (
                HintPlace::Kernel,
                "`cellblock jupyter install -- --env NAME`",
            ),
            (HintPlace::Ask, "`cellblock ask` with --env NAME"),
            (HintPlace::Chat, "`cellblock chat` with --env NAME"),
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
            ("no_network", "--allow-net HOST"),
            ("file", "--workspace DIR"),
        ] {
            let told = remedy(
                HintPlace::Exec,
                WorkspaceKind::Fresh,
                &result("OSError", "", Some(obstacle)),
            )
            .unwrap();
            assert!(told.text.contains(flag), "{obstacle}: {}", told.text);
        }
        assert_eq!(
            remedy(
                HintPlace::Exec,
                WorkspaceKind::Fresh,
                &result("OSError", "", None)
            ),
            None
        );
    }

    #[test]
    fn a_package_has_its_own_name_where_it_is_not_that_of_the_module() {
        let mut missing = result(
            "ModuleNotFoundError",
            "No module named 'cv2'",
            Some("package"),
        );
        let error = missing.error.as_mut().unwrap();
        error.package = Some("opencv-python-headless".to_owned());
        assert_eq!(
            remedy(HintPlace::Repl, WorkspaceKind::Fresh, &missing)
                .unwrap()
                .text,
            "`cv2`, a module of the package opencv-python-headless, is not part of this session: `%pip install opencv-python-headless` installs it"
        );
        let error = missing.error.as_mut().unwrap();
        error.package = Some("x; rm -rf ~".to_owned());
        assert_eq!(
            remedy(HintPlace::Exec, WorkspaceKind::Fresh, &missing)
                .unwrap()
                .text,
            "`cv2` is not part of this session: run it with --env NAME, after `cellblock env create NAME cv2`"
        );
    }

    #[test]
    fn a_package_is_named_where_a_library_wraps_the_error_of_the_import() {
        let mut wrapped = result(
            "ImportError",
            "Missing optional dependency 'openpyxl'.",
            Some("package"),
        );
        assert_eq!(
            remedy(HintPlace::Repl, WorkspaceKind::Fresh, &wrapped),
            None
        );
        let error = wrapped.error.as_mut().unwrap();
        error.package = Some("openpyxl".to_owned());
        assert_eq!(
            remedy(HintPlace::Repl, WorkspaceKind::Fresh, &wrapped)
                .unwrap()
                .text,
            "`openpyxl` is not part of this session: `%pip install openpyxl` installs it"
        );
    }

    #[test]
    fn only_a_session_without_any_network_is_said_to_have_none() {
        let told = |obstacle| {
            let met = result("OSError", "", Some(obstacle));
            let remedy = remedy(HintPlace::Exec, WorkspaceKind::Fresh, &met).unwrap();
            (remedy.text, remedy.replaces_hint)
        };
        let flag = "run it with --allow-net HOST to let it reach a host";
        assert_eq!(told("network"), (flag.to_owned(), false));
        let expected = format!("this session has no network: {flag}");
        assert_eq!(told("no_network"), (expected, true));
    }

    #[test]
    fn a_file_comes_in_by_what_the_place_has_for_it() {
        let missing = result("FileNotFoundError", "", Some("file"));
        for (place, way) in [
            (HintPlace::Exec, "run it with --workspace DIR"),
            (
                HintPlace::Repl,
                "start `cellblock repl` with --workspace DIR",
            ),
            (HintPlace::Ask, "start `cellblock ask` with --file PATH"),
            (HintPlace::Chat, "/attach PATH"),
            (HintPlace::Mcp, "`cellblock mcp` with --workspace DIR"),
            (
                HintPlace::Kernel,
                "`cellblock jupyter install -- --workspace DIR`",
            ),
        ] {
            let text = remedy(place, WorkspaceKind::Fresh, &missing).unwrap().text;
            assert!(text.contains(way), "{place:?}: {text}");
        }
    }

    #[test]
    fn a_person_who_named_a_workspace_is_not_told_to_name_one() {
        let missing = result("FileNotFoundError", "", Some("file"));
        let told = |place| remedy(place, WorkspaceKind::Named, &missing).map(|remedy| remedy.text);
        for place in [
            HintPlace::Exec,
            HintPlace::Repl,
            HintPlace::Ask,
            HintPlace::Mcp,
            HintPlace::Kernel,
        ] {
            assert_eq!(told(place), None, "{place:?}");
        }
        let text = told(HintPlace::Chat).unwrap();
        assert!(text.contains("/attach PATH"), "{text}");
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

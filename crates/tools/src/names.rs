//! The names of the tools that other code refers to, and how a name is made from a type.
//!
//! Code that treats a tool in a special way compares with these constants, never with a text of its own.

use std::any::type_name;

/// The builtin functions and types of Python.
pub const PYTHON_BUILTINS: &[&str] = &[
    "abs",
    "all",
    "any",
    "ascii",
    "bin",
    "bool",
    "breakpoint",
    "bytearray",
    "bytes",
    "callable",
    "chr",
    "classmethod",
    "compile",
    "complex",
    "delattr",
    "dict",
    "dir",
    "divmod",
    "enumerate",
    "eval",
    "exec",
    "exit",
    "filter",
    "float",
    "format",
    "frozenset",
    "getattr",
    "globals",
    "hasattr",
    "hash",
    "help",
    "hex",
    "id",
    "input",
    "int",
    "isinstance",
    "issubclass",
    "iter",
    "len",
    "list",
    "locals",
    "map",
    "max",
    "memoryview",
    "min",
    "next",
    "object",
    "oct",
    "open",
    "ord",
    "pow",
    "print",
    "property",
    "quit",
    "range",
    "repr",
    "reversed",
    "round",
    "set",
    "setattr",
    "slice",
    "sorted",
    "staticmethod",
    "str",
    "sum",
    "super",
    "tuple",
    "type",
    "vars",
    "zip",
];

/// Runs a cell in the session.
pub const EXECUTE_PYTHON_CODE: &str = "execute_python_code";
/// The argument of [`EXECUTE_PYTHON_CODE`] with the code.
pub const CODE_ARGUMENT: &str = "python_code_snippet";
/// The argument of [`EXECUTE_PYTHON_CODE`] with the time limit in seconds.
pub const TIMEOUT_ARGUMENT: &str = "timeout";
/// Evaluates one expression in a throw-away copy of the session.
pub const COMPUTE: &str = "compute";
/// The alias of [`COMPUTE`].
pub const COMPUTE_ALIAS: &str = "compute_with_python";
/// The name by which a person is asked about a host that no rule of the network names. It is no tool.
pub const REACH_HOST: &str = "reach_host";
/// Keeps the plan of a run.
pub const RECURSIVE_PLAN_TREE_TODO: &str = "recursive_plan_tree_todo";
/// Reads a text file of the workspace.
pub const FILE_READER: &str = "file_reader";
/// Lists the files of the workspace.
pub const LIST_FILES: &str = "list_files";
/// Takes back the last cells.
pub const UNDO: &str = "undo";
/// Lists the checkpoints of the session.
pub const CHECKPOINTS: &str = "checkpoints";
/// Ends a run of an agent with a value that the code computed.
pub const FINAL_ANSWER: &str = "final_answer";
/// Installs packages for the session.
pub const INSTALL_PACKAGES: &str = "install_packages";
/// Makes a copy of the session. Offered to MCP clients only.
pub const FORK: &str = "fork";
/// Lists the variables of the session. Offered to MCP clients only.
pub const VARIABLES: &str = "variables";
/// Writes a file of the workspace. Offered to MCP clients only.
pub const WRITE_FILE: &str = "write_file";

/// The field of every call in which a model says why it calls.
pub const PURPOSE_FIELD: &str = "tool_call_purpose";

/// The name of a tool, made from its type: `ExecutePythonCodeTool` is `execute_python_code`.
pub(crate) fn name_of_type<T>() -> String {
    let path = type_name::<T>();
    let path = path.split('<').next().unwrap_or(path);
    let last = path.rsplit("::").next().unwrap_or(path);
    let stem = match last.strip_suffix("Tool") {
        Some(stem) if !stem.is_empty() => stem,
        _ => last,
    };
    snake_case(stem)
}

/// `WeatherQuery` is `weather_query`, `HTTPFetch` is `http_fetch`.
fn snake_case(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut text = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| letters.get(at));
        let after = letters.get(at + 1);
        let begins_word = letter.is_uppercase()
            && before.is_some_and(|before| {
                *before != '_'
                    && (!before.is_uppercase() || after.is_some_and(|after| after.is_lowercase()))
            });
        if begins_word {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DynamicTool as _;
    use crate::builtin::*;
    use crate::registry::TypedTool;

    struct Tool;
    struct Typed<T>(T);

    #[test]
    fn the_name_of_a_tool_is_that_of_its_type_in_snake_case() {
        for (name, constant) in [
            (name_of_type::<ExecutePythonCodeTool>(), EXECUTE_PYTHON_CODE),
            (name_of_type::<ComputeTool>(), COMPUTE),
            (
                name_of_type::<RecursivePlanTreeTodoTool>(),
                RECURSIVE_PLAN_TREE_TODO,
            ),
            (name_of_type::<FileReaderTool>(), FILE_READER),
            (name_of_type::<ListFilesTool>(), LIST_FILES),
            (name_of_type::<UndoTool>(), UNDO),
            (name_of_type::<CheckpointsTool>(), CHECKPOINTS),
            (name_of_type::<InstallPackagesTool>(), INSTALL_PACKAGES),
            (name_of_type::<FinalAnswerTool>(), FINAL_ANSWER),
        ] {
            assert_eq!(name, constant);
        }
        assert_eq!(name_of_type::<Tool>(), "tool");
        assert_eq!(name_of_type::<Typed<std::string::String>>(), "typed");
    }

    #[test]
    fn the_arguments_that_other_code_relies_on_are_in_the_schema() {
        let schema = TypedTool(ExecutePythonCodeTool).definition().parameters;
        for argument in [CODE_ARGUMENT, TIMEOUT_ARGUMENT] {
            assert!(schema["properties"].get(argument).is_some());
        }
    }

    #[test]
    fn words_begin_with_capital_letters() {
        for (name, expected) in [
            ("WeatherQuery", "weather_query"),
            ("HTTPFetch", "http_fetch"),
            ("FetchHTTP", "fetch_http"),
            ("Top10Lines", "top10_lines"),
            ("Already_Split", "already_split"),
            ("plain", "plain"),
        ] {
            assert_eq!(snake_case(name), expected);
        }
    }
}

//! The names of tools: those that other code relies on, and how a name is made from a type.

use std::any::type_name;

/// The name of [`ExecutePythonCodeTool`](crate::ExecutePythonCodeTool), which runs code in the session.
pub const EXECUTE_PYTHON_CODE: &str = "execute_python_code";
/// The argument of [`EXECUTE_PYTHON_CODE`] with the code.
pub const CODE_ARGUMENT: &str = "python_code_snippet";
/// The argument of [`EXECUTE_PYTHON_CODE`] with the time limit in seconds.
pub const TIMEOUT_ARGUMENT: &str = "timeout";
/// The name of [`ComputeTool`](crate::ComputeTool), which evaluates one expression.
pub const COMPUTE: &str = "compute";
/// The name of [`InstallPackagesTool`](crate::InstallPackagesTool).
pub const INSTALL_PACKAGES: &str = "install_packages";
/// The name of [`RecursivePlanTreeTodoTool`](crate::RecursivePlanTreeTodoTool), which keeps the plan.
pub const RECURSIVE_PLAN_TREE_TODO: &str = "recursive_plan_tree_todo";
/// The name of [`UndoTool`](crate::UndoTool), which takes back cells.
pub const UNDO: &str = "undo";

/// The name of a tool from its type: `ExecutePythonCodeTool` is `execute_python_code`.
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
    use super::{name_of_type, snake_case};
    use crate::{
        AnyTool as _, ComputeTool, ExecutePythonCodeTool as ExecuteTool, RecursivePlanTreeTodoTool,
        UndoTool,
    };

    struct ExecutePythonCodeTool;
    struct Tool;
    struct Typed<T>(T);

    #[test]
    fn the_name_of_a_tool_is_that_of_its_type_in_snake_case() {
        assert_eq!(
            name_of_type::<ExecutePythonCodeTool>(),
            "execute_python_code"
        );
        assert_eq!(name_of_type::<Tool>(), "tool");
        assert_eq!(name_of_type::<Typed<std::string::String>>(), "typed");
    }

    #[test]
    fn the_names_that_other_code_relies_on_are_those_of_the_tools() {
        use crate::any_tool::Typed;
        let code = Typed(ExecuteTool).definition();
        assert_eq!(code.name, super::EXECUTE_PYTHON_CODE);
        for argument in [super::CODE_ARGUMENT, super::TIMEOUT_ARGUMENT] {
            assert!(code.parameters["properties"].get(argument).is_some());
        }
        assert_eq!(Typed(ComputeTool).definition().name, super::COMPUTE);
        assert_eq!(Typed(UndoTool).definition().name, super::UNDO);
        assert_eq!(
            Typed(RecursivePlanTreeTodoTool).definition().name,
            super::RECURSIVE_PLAN_TREE_TODO
        );
        assert_eq!(
            name_of_type::<crate::InstallPackagesTool>(),
            super::INSTALL_PACKAGES
        );
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

//! The names of tools.

use std::any::type_name;

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

//! The option `imports`: names that are bound before the first cell.

use crate::json::invalid::{Invalid, shown_text};
use crate::options::seed::{is_identifier, is_keyword};

/// The Python statement for one entry of the option `imports`.
///
/// Accepted are `math`, `numpy as np`, `import a.b as c`, `from x import y, z as w`, and the short names
/// in common use (`np`, `pd`, `plt`, `sns`). The statement is put together from the checked
/// names, never from the text itself, so an entry cannot carry code.
pub fn import_statement(entry: &str) -> Result<String, Invalid> {
    let refused = || Invalid::value("imports", EXPECTED, shown_text(entry));
    if entry.chars().any(char::is_control) {
        return Err(refused());
    }
    if let Some((_, statement)) = SHORT_NAMES.iter().find(|(short, _)| *short == entry.trim()) {
        return Ok((*statement).to_owned());
    }
    let words: Vec<&str> = entry.split_whitespace().collect();
    match words.as_slice() {
        ["from", module, "import", _, ..] => {
            let (_, names) = entry.split_once(" import ").ok_or_else(refused)?;
            let module = dotted(module).ok_or_else(refused)?;
            let names: Option<Vec<String>> = names
                .split(',')
                .map(|name| with_alias(name, plain))
                .collect();
            Ok(format!(
                "from {module} import {}",
                names.ok_or_else(refused)?.join(", ")
            ))
        }
        ["import", rest @ ..] | rest => {
            let import = with_alias(&rest.join(" "), dotted).ok_or_else(refused)?;
            Ok(format!("import {import}"))
        }
    }
}

const EXPECTED: &str = "a module such as \"math\", \"numpy as np\" or \"from x import y\"";

const SHORT_NAMES: &[(&str, &str)] = &[
    ("np", "import numpy as np"),
    ("pd", "import pandas as pd"),
    ("plt", "import matplotlib.pyplot as plt"),
    ("sns", "import seaborn as sns"),
];

/// `name` or `name as alias`, where `check` says what a name may be.
fn with_alias(text: &str, check: fn(&str) -> Option<&str>) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        [name] => check(name).map(str::to_owned),
        [name, "as", alias] => Some(format!("{} as {}", check(name)?, plain(alias)?)),
        _ => None,
    }
}

fn dotted(name: &str) -> Option<&str> {
    name.split('.')
        .all(|part| plain(part).is_some())
        .then_some(name)
}

fn plain(name: &str) -> Option<&str> {
    (is_identifier(name) && !is_keyword(name)).then_some(name)
}

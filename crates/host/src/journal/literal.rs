//! Values and source as literals of Python.

use serde_json::Value;

/// A JSON value as a Python expression.
pub fn of_value(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => of_text(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(of_value).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let entries = map
                .iter()
                .map(|(key, value)| format!("{}: {}", of_text(key), of_value(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A text on one line. Every escape of JSON that is written here means the same in Python.
pub(super) fn of_text(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// Source over several lines, as it stands wherever that is possible. It begins with a line break that is not part of it.
pub(super) fn of_source(code: &str) -> String {
    let is_plain = |c: char| c == '\n' || c == '\t' || !c.is_control();
    // A line break before the closing quotes: no backslash and no quote can run into them.
    if code.chars().all(is_plain) {
        for quotes in ["'''", "\"\"\""] {
            if !code.contains(quotes) {
                return format!("r{quotes}\n{code}\n{quotes}");
            }
        }
    }
    let lines = code.split_inclusive('\n').map(of_text);
    let lines: Vec<String> = lines.map(|line| format!("\n    {line}")).collect();
    format!("(\n    \"\\n\"{}\n)", lines.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_python() {
        let value = json!({"a": [null, true, false, 1.5, -3, "x\n\u{1}\"é"], "b": {}});
        assert_eq!(
            of_value(&value),
            r#"{"a": [None, True, False, 1.5, -3, "x\n\u0001\"é"], "b": {}}"#
        );
    }

    #[test]
    fn source_stays_readable_where_it_can() {
        assert_eq!(of_source("x = '\\'"), "r'''\nx = '\\'\n'''");
        assert_eq!(of_source("'''a'''"), "r\"\"\"\n'''a'''\n\"\"\"");
        assert_eq!(
            of_source("'''\"\"\"\r\nx"),
            "(\n    \"\\n\"\n    \"'''\\\"\\\"\\\"\\r\\n\"\n    \"x\"\n)"
        );
    }
}

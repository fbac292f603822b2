//! Results of cells as the lines that clients of the code interpreter read.

use cellblock_protocol::{CellError, CellResult, CellValue, MimeBundle, Status};
use serde_json::{Map, Value, json};

/// Types of content and the fields of a result that hold them.
const FIELDS: [(&str, &str); 12] = [
    ("text/plain", "text"),
    ("text/html", "html"),
    ("text/markdown", "markdown"),
    ("image/svg+xml", "svg"),
    ("image/png", "png"),
    ("image/jpeg", "jpeg"),
    ("application/pdf", "pdf"),
    ("text/latex", "latex"),
    ("application/json", "json"),
    ("application/javascript", "javascript"),
    ("e2b/data", "data"),
    ("e2b/chart", "chart"),
];

/// Something that a cell showed.
pub(super) fn display_line(mime: &MimeBundle) -> Value {
    Value::Object(result_fields(mime))
}

/// The value of the last expression of a cell.
pub(super) fn value_line(value: &CellValue) -> Value {
    let mut fields = result_fields(&value.mime);
    fields
        .entry("text")
        .or_insert_with(|| unquoted(&value.repr).into());
    fields.insert("is_main_result".into(), true.into());
    Value::Object(fields)
}

fn result_fields(mime: &MimeBundle) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("type".into(), "result".into());
    let mut extra = Map::new();
    for (kind, content) in mime.iter() {
        let value = content.to_value();
        let known = FIELDS.iter().find(|(known, _)| *known == kind);
        match known {
            Some((_, "text")) => {
                let text = value.as_str().map(|text| unquoted(text).into());
                fields.insert("text".into(), text.unwrap_or(value));
            }
            Some((_, field)) => {
                fields.insert((*field).into(), value);
            }
            None if kind == MimeBundle::TABLE => {
                if let Some(columns) = table_columns(&value) {
                    fields.insert("data".into(), columns);
                }
            }
            None => {
                extra.insert(kind.to_owned(), value);
            }
        }
    }
    if !extra.is_empty() {
        fields.insert("extra".into(), extra.into());
    }
    fields
}

/// A text without the quotes of its `repr`, as E2B shows it.
fn unquoted(text: &str) -> &str {
    let between = |quote: char| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        Some(inner)
    };
    between('\'').or_else(|| between('"')).unwrap_or(text)
}

/// The columns of a table with their values: `{"a": [1, 2], "b": [3, 4]}`.
fn table_columns(table: &Value) -> Option<Value> {
    let columns = table.get("columns")?.as_array()?;
    let rows = table.get("rows")?.as_array()?;
    let mut data = Map::new();
    for (index, column) in columns.iter().enumerate() {
        let name = column.get("name").unwrap_or(column);
        let name = name
            .as_str()
            .map_or_else(|| name.to_string(), str::to_owned);
        let values = rows
            .iter()
            .map(|row| row.get(index).cloned().unwrap_or_default());
        data.insert(name, values.collect());
    }
    Some(Value::Object(data))
}

/// The error of a cell that failed; `None` where it did not.
pub(super) fn error_line(result: &CellResult) -> Option<Value> {
    if let Some(error) = &result.error {
        return Some(python_error(error));
    }
    let (name, value) = match result.status {
        Status::Success => return None,
        Status::Timeout => ("TimeoutError", "the cell ran out of time"),
        Status::Interrupted => ("KeyboardInterrupt", ""),
        _ => (
            "ExecutionError",
            "the interpreter ended in this cell; variables are as they were before it",
        ),
    };
    Some(json!({"type": "error", "name": name, "value": value, "traceback": value}))
}

fn python_error(error: &CellError) -> Value {
    json!({
        "type": "error",
        "name": error.type_,
        "value": error.value,
        "traceback": error.traceback,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_its_forms_in_the_fields_of_the_e2b_api() {
        let mime = MimeBundle::new()
            .with("text/html", "<b>1</b>")
            .with("image/png", "aGk=")
            .with("application/x-other", "x");
        let value = CellValue {
            repr: "'a text'".into(),
            mime,
        };
        let expected = json!({
            "type": "result", "is_main_result": true, "text": "a text", "html": "<b>1</b>",
            "png": "aGk=", "extra": {"application/x-other": "x"},
        });
        assert_eq!(value_line(&value), expected);
    }
}

//! Jupyter notebooks as HTML, for the preview and for documents: Markdown, code, text outputs and pictures.
//!
//! HTML outputs of a notebook are left out: a preview of a file must not run its scripts.

use serde_json::Value;

use super::{ansi, highlight, markdown};
use crate::http::count_values;

/// The most cells of a preview.
const MAX_CELLS: usize = 200;
/// The most JSON values of a notebook that is shown as one: each takes far more memory than its text.
const MAX_NOTEBOOK_VALUES: usize = 500_000;

/// The HTML of the first cells of the notebook `source`, or `None` if it is no notebook.
pub(super) fn to_html(source: &str) -> Option<String> {
    cells_to_html(source, MAX_CELLS)
}

/// The HTML of all cells of the notebook `source`, or `None` if it is no notebook.
pub(super) fn whole_to_html(source: &str) -> Option<String> {
    cells_to_html(source, usize::MAX)
}

fn cells_to_html(source: &str, max_cells: usize) -> Option<String> {
    if count_values(source.as_bytes()) > MAX_NOTEBOOK_VALUES {
        return None;
    }
    let notebook: Value = serde_json::from_str(source).ok()?;
    let cells = notebook.get("cells")?.as_array()?;
    let mut html = String::new();
    for cell in cells.iter().take(max_cells) {
        let text = joined(cell.get("source"));
        match cell.get("cell_type").and_then(Value::as_str) {
            Some("markdown") => html.push_str(&markdown::to_html(&text)),
            Some("code") => {
                push_block(&mut html, "code", &highlight::to_html(&text, "python"));
                for output in cell
                    .get("outputs")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                {
                    match picture(output) {
                        Some(picture) => html.push_str(&picture),
                        None => {
                            let text = ansi::to_html(&text_of_output(output));
                            push_block(&mut html, "output", &text);
                        }
                    }
                }
            }
            _ => {}
        }
    }
    Some(html)
}

fn push_block(html: &mut String, class: &str, body: &str) {
    if !body.is_empty() {
        html.push_str(&format!(
            "<pre class=\"{class}\" tabindex=\"0\"><code>{body}</code></pre>"
        ));
    }
}

/// A picture of an output. What is no base64 is no picture: it could end the attribute.
fn picture(output: &Value) -> Option<String> {
    let data = output.get("data")?;
    ["image/png", "image/jpeg"].into_iter().find_map(|mime| {
        let base64: String = joined(data.get(mime)).split_whitespace().collect();
        let is_base64 = base64
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
        (is_base64 && !base64.is_empty())
            .then(|| format!("<p><img alt=\"\" src=\"data:{mime};base64,{base64}\"></p>"))
    })
}

fn text_of_output(output: &Value) -> String {
    let plain = output.get("data").and_then(|data| data.get("text/plain"));
    joined(
        output
            .get("text")
            .or(plain)
            .or_else(|| output.get("traceback")),
    )
}

/// A text that a notebook keeps as one text or as a list of lines.
fn joined(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notebook_shows_words_code_and_text_outputs_without_its_html() {
        let source = r##"{"cells":[{"cell_type":"markdown","source":["# Hi\n"]},
            {"cell_type":"code","source":"1","outputs":[{"data":{"text/plain":"<1>","text/html":"<script>"}}]}]}"##;
        let html = to_html(source).unwrap();
        assert!(
            html.contains("<h3>Hi</h3>") && html.contains("&lt;1&gt;") && !html.contains("script"),
            "{html}"
        );
        assert_eq!(to_html("{}"), None);
        let many = format!("{{\"cells\": [{}1]}}", "[],".repeat(300_000));
        assert_eq!(to_html(&many), None);
    }
}

//! What a cell's text and the forms of its values mean to a notebook.

use cellblock_protocol::{Detail, MimeBundle};
use serde_json::{Value, json};

/// The form of a display that is no output: the text of the cell that the front end shall offer next, as `%load` gives it.
const NEXT_INPUT: &str = "application/vnd.cellblock.next-input+json";

/// The part of a reply that has the front end offer a text as its next cell, or put it in the place of this one.
pub(super) fn next_input(mime: &MimeBundle) -> Option<Value> {
    let wanted = mime.get(NEXT_INPUT)?;
    Some(json!({
        "source": "set_next_input",
        "text": wanted["text"].as_str()?,
        "replace": wanted["replace"].as_bool().unwrap_or(false),
    }))
}

/// The forms of something to show that notebooks know. The table is for our own front end, and as large as the HTML beside it.
pub(super) fn notebook_forms(mut mime: MimeBundle) -> Value {
    mime.retain(|kind, _| kind != MimeBundle::TABLE);
    json!(mime)
}

/// The name in a cell that only asks for help: `name?`, `?name`, or with two question marks for the source text.
pub(super) fn help_line(code: &str) -> Option<(&str, Detail)> {
    let line = code.trim();
    let name = line.trim_matches('?');
    let marks = line.len() - name.len();
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .chars()
                .all(|letter| letter.is_alphanumeric() || "._".contains(letter))
    };
    let name = name.trim();
    match marks {
        1 if is_name(name) => Some((name, Detail::Summary)),
        2 if is_name(name) => Some((name, Detail::Source)),
        _ => None,
    }
}

/// Whether a cell ends with a semicolon, which hides its value.
pub(super) fn hides_value(code: &str) -> bool {
    let line = code.trim_end().lines().next_back().unwrap_or_default();
    line.ends_with(';') && !line.contains('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_asks_for_help_is_recognized() {
        assert_eq!(help_line("zip?"), Some(("zip", Detail::Summary)));
        assert_eq!(help_line(" ??a.b \n"), Some(("a.b", Detail::Source)));
        for code in ["zip", "x = 1?", "?", "a?\nb", "f('?')", "'what?'"] {
            assert_eq!(help_line(code), None, "{code}");
        }
    }

    #[test]
    fn a_semicolon_at_the_end_hides_the_value() {
        assert!(hides_value("1 + 1;"));
        assert!(hides_value("x = 1\nx; \n"));
        assert!(!hides_value("1 # one;"));
        assert!(!hides_value("1;\n2"));
    }

    #[test]
    fn a_text_for_the_next_cell_is_no_output() {
        let wanted = json!({"text": "1 + 1", "replace": true});
        let mime = MimeBundle::new().with(NEXT_INPUT, wanted);
        let part = json!({"source": "set_next_input", "text": "1 + 1", "replace": true});
        assert_eq!(next_input(&mime), Some(part));
        let malformed = MimeBundle::new().with(NEXT_INPUT, json!([1]));
        assert_eq!(next_input(&malformed), None);
        assert_eq!(next_input(&MimeBundle::new()), None);
    }
}

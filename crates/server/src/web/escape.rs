//! Text as HTML text.

/// Appends `text` to `html` so that a browser shows it literally, in an element and in a quoted attribute.
pub(super) fn push_escaped(html: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            // A parser would turn it into a replacement character, or drop it.
            '\0' => html.push('\u{fffd}'),
            _ => html.push(character),
        }
    }
}

/// `text` so that a browser shows it literally.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + text.len() / 8);
    push_escaped(&mut html, text);
    html
}

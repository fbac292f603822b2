//! What can be seen of a reply that still comes.

/// A reply so far.
#[derive(Clone, Debug, Default)]
pub struct Growing {
    /// Its text.
    pub text: String,
    /// Its calls: name and arguments so far.
    pub calls: Vec<(String, String)>,
}

/// Thought and code, as far as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glimpse {
    /// The thought.
    pub thought: String,
    /// The code.
    pub code: String,
}

/// The text of a field in JSON that is not complete yet; empty where it has not begun.
pub(super) fn partial_text(json: &str, field: &str) -> String {
    let quoted = format!("\"{field}\"");
    let Some(at) = json.find(&quoted) else {
        return String::new();
    };
    let rest = json[at + quoted.len()..].trim_start();
    let Some(value) = rest.strip_prefix(':').map(str::trim_start) else {
        return String::new();
    };
    let Some(body) = value.strip_prefix('"') else {
        return String::new();
    };
    decoded(body)
}

/// The text up to the closing quote, or as far as it is whole.
fn decoded(body: &str) -> String {
    let mut text = String::new();
    let mut chars = body.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => match chars.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('r') => {}
                Some('u') => {
                    let digits: String = chars.by_ref().take(4).collect();
                    let code = u32::from_str_radix(&digits, 16).ok();
                    text.extend(code.and_then(char::from_u32));
                }
                Some(other) => text.push(other),
                None => break,
            },
            c => text.push(c),
        }
    }
    text
}

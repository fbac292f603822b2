//! Fixes for small mistakes in JSON that can mean only one thing.

use super::Repair;

/// JSON after its small mistakes were fixed.
pub(super) struct FixedJson {
    pub(super) text: String,
    pub(super) repairs: Vec<Repair>,
    /// Whether the original ended inside a string.
    pub(super) ended_in_string: bool,
}

/// Fixes typographic quotes, full-width marks, comments, raw line breaks, unknown escapes, trailing commas, Python's `True`, `False` and `None`, and brackets that
/// are open at the end. Valid JSON is returned as it is.
pub(super) fn fix_json(text: &str) -> FixedJson {
    let mut writer = JsonWriter::default();
    let mut chars = text.chars().peekable();
    let mut string_end: Option<char> = None;
    while let Some(c) = chars.next() {
        match string_end {
            Some(end) if c == end || (end != '"' && c == '"') => {
                writer.out.push('"');
                string_end = None;
            }
            Some(end) => writer.in_string(c, end, &mut chars),
            None => {
                string_end = closing_quote(c);
                match (string_end, c) {
                    (Some('"'), '"') => writer.out.push('"'),
                    (Some(_), _) => {
                        writer.note(Repair::SmartQuotes);
                        writer.out.push('"');
                    }
                    (None, 'T' | 'F' | 'N') => writer.word(c, &mut chars),
                    (None, '/') if matches!(chars.peek(), Some('/' | '*')) => {
                        writer.comment(&mut chars);
                    }
                    (None, _) => writer.structure(plain_mark(c)),
                }
            }
        }
    }
    let ended_in_string = string_end.is_some();
    if ended_in_string {
        writer.out.push('"');
    }
    writer.close(ended_in_string);
    FixedJson {
        text: writer.out,
        repairs: writer.repairs,
        ended_in_string,
    }
}

/// Escapes quotes inside texts. A quote ends a text only where JSON can go on after it: before `:` after the name of a field, before a
/// comma and the next of these fields, or before closing brackets.
pub(super) fn escape_inner_quotes(text: &str, fields: &[&str]) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut in_string = false;
    let mut is_escaped = false;
    let mut before = '{';
    let mut is_field_name = false;
    for (at, c) in text.char_indices() {
        let rest = &text[at + c.len_utf8()..];
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if in_string => is_escaped = true,
            '"' if !in_string => {
                in_string = true;
                is_field_name = matches!(before, '{' | ',');
            }
            '"' if ends_text(rest, is_field_name, fields) => in_string = false,
            '"' => out.push('\\'),
            _ => {}
        }
        if !in_string && !c.is_whitespace() {
            before = c;
        }
        out.push(c);
    }
    out
}

fn ends_text(rest: &str, is_field_name: bool, fields: &[&str]) -> bool {
    let rest = rest.trim_start();
    let mut chars = rest.chars();
    match chars.next() {
        None => true,
        Some(':') => is_field_name,
        Some(',') => {
            let next = chars.as_str().trim_start();
            let name = next.strip_prefix('"').and_then(|next| next.split_once('"'));
            name.is_some_and(|(name, after)| {
                fields.contains(&name) && after.trim_start().starts_with(':')
            })
        }
        Some('}' | ']') => {
            let after = chars.as_str().trim_start().chars().next();
            after.is_none_or(|after| matches!(after, '}' | ']' | ','))
        }
        Some(_) => false,
    }
}

/// Writes the fixed text, and keeps which brackets are open.
#[derive(Default)]
struct JsonWriter {
    out: String,
    repairs: Vec<Repair>,
    open: Vec<char>,
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

impl JsonWriter {
    fn note(&mut self, repair: Repair) {
        if !self.repairs.contains(&repair) {
            self.repairs.push(repair);
        }
    }

    fn in_string(&mut self, c: char, end: char, chars: &mut Chars<'_>) {
        match c {
            '\\' => self.escape(chars),
            '"' if end != '"' => self.out.push_str("\\\""),
            '\n' => self.escaped("\\n"),
            '\r' => self.escaped("\\r"),
            '\t' => self.escaped("\\t"),
            c if (c as u32) < 0x20 => {
                let code = format!("\\u{:04x}", c as u32);
                self.escaped(&code);
            }
            c => self.out.push(c),
        }
    }

    fn escaped(&mut self, text: &str) {
        self.note(Repair::RawLineBreaks);
        self.out.push_str(text);
    }

    fn escape(&mut self, chars: &mut Chars<'_>) {
        match chars.peek().copied() {
            Some(next @ ('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't')) => {
                chars.next();
                self.out.push('\\');
                self.out.push(next);
            }
            Some('u') if is_code_point(chars) => self.out.push('\\'),
            Some('\'') => {
                chars.next();
                self.note(Repair::Backslashes);
                self.out.push('\'');
            }
            _ => {
                self.note(Repair::Backslashes);
                self.out.push_str("\\\\");
            }
        }
    }

    fn word(&mut self, first: char, chars: &mut Chars<'_>) {
        let mut word = String::from(first);
        while let Some(c) = chars.next_if(|c| c.is_alphanumeric() || *c == '_') {
            word.push(c);
        }
        let json = match word.as_str() {
            "True" => "true",
            "False" => "false",
            "None" => "null",
            other => return self.out.push_str(other),
        };
        self.note(Repair::PythonWords);
        self.out.push_str(json);
    }

    /// Skips a comment, `// …` up to the end of the line or `/* … */`. Outside of a text it has no meaning for the value.
    fn comment(&mut self, chars: &mut Chars<'_>) {
        self.note(Repair::Comment);
        let is_line = chars.next() == Some('/');
        let mut before = ' ';
        while let Some(c) = chars.next_if(|c| !is_line || *c != '\n') {
            if !is_line && before == '*' && c == '/' {
                return;
            }
            before = c;
        }
    }

    fn structure(&mut self, (c, is_wide): (char, bool)) {
        if is_wide {
            self.note(Repair::Punctuation);
        }
        match c {
            '{' | '[' => self.open.push(c),
            '}' | ']' => {
                self.drop_comma();
                self.open.pop();
            }
            _ => {}
        }
        self.out.push(c);
    }

    fn drop_comma(&mut self) {
        let trimmed = self.out.trim_end();
        if trimmed.ends_with(',') {
            let keep = trimmed.len() - 1;
            self.out.remove(keep);
            self.note(Repair::TrailingComma);
        }
    }

    fn close(&mut self, in_string: bool) {
        if self.open.is_empty() {
            return;
        }
        self.note(Repair::Unclosed);
        if !in_string {
            self.drop_comma();
        }
        while let Some(open) = self.open.pop() {
            self.out.push(if open == '{' { '}' } else { ']' });
        }
    }
}

/// A mark of JSON in its plain form, and whether it was a full-width one, as on Chinese keyboards.
fn plain_mark(c: char) -> (char, bool) {
    match c {
        '\u{ff1a}' => (':', true),
        '\u{ff0c}' => (',', true),
        '\u{ff5b}' => ('{', true),
        '\u{ff5d}' => ('}', true),
        '\u{ff3b}' => ('[', true),
        '\u{ff3d}' => (']', true),
        plain => (plain, false),
    }
}

fn is_code_point(chars: &Chars<'_>) -> bool {
    let digits = chars.clone().skip(1).take(4);
    digits.filter(char::is_ascii_hexdigit).count() == 4
}

/// The quote that closes a string which this character opens. `None` where it opens no string.
fn closing_quote(c: char) -> Option<char> {
    match c {
        '"' => Some('"'),
        '\u{201c}' | '\u{201d}' | '\u{201e}' => Some('\u{201d}'),
        _ => None,
    }
}

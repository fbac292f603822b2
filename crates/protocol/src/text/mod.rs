//! Text that came from a guest, made safe to show and small enough to hold.

mod invisible;

use crate::text::invisible::{is_blank_in_name, is_in_emoji, is_invisible};
use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

/// Takes out everything that a terminal would obey instead of print, and everything that a reader would not see.
///
/// Colours, cursor moves, window titles and clipboard writes (CSI, OSC, DCS and similar, in 7-bit and 8-bit
/// form) go, and so does every other control character but `\n` and `\t`. A carriage return could paint over
/// what stands on the line, so it begins a new one; in front of `\n` it just goes. What is left of a sequence that a
/// chunk boundary cut in two is plain text, and harmless.
///
/// Marks that turn the direction of a text and characters without a shape go too: with them, a name looks like another one. They stay
/// inside an emoji. A line separator of Unicode becomes `\n`.
///
/// In running text nothing is missed. For a name, where two that differ must look different, there is [`visible_name`].
pub fn strip_terminal_escapes(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' | '\t' => plain.push(c),
            '\r' => carriage_return(&mut plain, &mut rest),
            ESCAPE => escape(&mut rest),
            '\u{9b}' => control_sequence(&mut rest),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => control_string(&mut rest),
            LINE_SEPARATOR | PARAGRAPH_SEPARATOR => plain.push('\n'),
            _ if c.is_control() => {}
            _ if is_invisible(c) => {
                if is_in_emoji(c, plain.chars().next_back(), rest.peek().copied()) {
                    plain.push(c);
                }
            }
            _ => plain.push(c),
        }
    }
    Cow::Owned(plain)
}

/// Writes out what [`strip_terminal_escapes`] would take out: `\u{202e}`. For text that a person judges, such as code that is about to
/// run. Line breaks and tabs stay.
///
/// A backslash of the text itself stays single, so the way back is not always clear. It is for reading only.
pub fn visible_text(text: &str) -> Cow<'_, str> {
    written_out(text, is_hidden)
}

/// Makes a name (of a file, a variable, a tool, a session) safe to show inside a line, where two names that differ must look different.
///
/// Written out too are line breaks and tabs, blanks that can be taken for a plain space or for nothing, and plain spaces at both ends.
/// Letters that look alike are not told apart.
pub fn visible_name(name: &str) -> Cow<'_, str> {
    let inner = name.trim_matches(' ');
    let is_written = |c| matches!(c, '\n' | '\t') || is_hidden(c) || is_blank_in_name(c);
    if inner.len() == name.len() {
        return written_out(name, is_written);
    }
    let begin = name.len() - name.trim_start_matches(' ').len();
    let end = name.len() - begin - inner.len();
    let space = ' '.escape_unicode().to_string();
    let inner = written_out(inner, is_written);
    Cow::Owned(space.repeat(begin) + &inner + &space.repeat(end))
}

/// JSON as it may be printed to a terminal: what is hidden stands there as `\u202e`. Every reader of JSON reads the same values from it.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(is_hidden) {
        return Cow::Borrowed(json);
    }
    let mut visible = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                visible.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            visible.push(c);
        }
    }
    Cow::Owned(visible)
}

fn written_out(text: &str, is_written: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_written) {
        return Cow::Borrowed(text);
    }
    let mut visible = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let before = visible.chars().next_back();
        if !is_written(c) || is_in_emoji(c, before, rest.peek().copied()) {
            visible.push(c);
        } else if matches!(c, '\n' | '\t' | '\r') {
            visible.extend(c.escape_default());
        } else {
            visible.extend(c.escape_unicode());
        }
    }
    Cow::Owned(visible)
}

/// Whether a character of running text is obeyed or not seen.
fn is_hidden(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t') || is_invisible(c)
}

/// The largest place at or before `at` where a text may be cut.
pub(crate) fn floor_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len()))
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(0)
}

/// The smallest place at or after `at` where a text may be cut.
pub(crate) fn ceil_boundary(text: &str, at: usize) -> usize {
    (at..text.len())
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(text.len())
}

const LINE_SEPARATOR: char = '\u{2028}';
const PARAGRAPH_SEPARATOR: char = '\u{2029}';
const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';
const STRING_TERMINATOR: char = '\u{9c}';

fn carriage_return(plain: &mut String, rest: &mut Peekable<Chars<'_>>) {
    while rest.next_if_eq(&'\r').is_some() {}
    let line_has_text = !plain.is_empty() && !plain.ends_with('\n');
    if line_has_text && rest.peek() != Some(&'\n') {
        plain.push('\n');
    }
}

/// After ESC. What does not belong to a sequence stays in `rest`, to be looked at again.
fn escape(rest: &mut Peekable<Chars<'_>>) {
    match rest.peek() {
        Some('[') => {
            rest.next();
            control_sequence(rest);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            rest.next();
            control_string(rest);
        }
        _ => {
            // Character sets and the like: any number of intermediate bytes, then one final byte.
            while rest.next_if(|c| (' '..='/').contains(c)).is_some() {}
            rest.next_if(|c| ('0'..='~').contains(c));
        }
    }
}

/// CSI: parameters, intermediates, one final byte.
fn control_sequence(rest: &mut Peekable<Chars<'_>>) {
    while rest.next_if(|c| (' '..='?').contains(c)).is_some() {}
    rest.next_if(|c| ('@'..='~').contains(c));
}

/// OSC, DCS and the like: up to BEL or ST. A line break ends it too, so that an unfinished one hides one line at most.
fn control_string(rest: &mut Peekable<Chars<'_>>) {
    while let Some(c) = rest.next_if(|&c| c != '\n' && c != ESCAPE) {
        if c == BELL || c == STRING_TERMINATOR {
            return;
        }
    }
    // `ESC \` is ST. Any other ESC begins a sequence of its own and is left for the caller's loop: handling it here
    // would recurse, and a guest could nest deeper than the stack.
    let mut ahead = rest.clone();
    if ahead.next() == Some(ESCAPE) && ahead.next() == Some('\\') {
        *rest = ahead;
    }
}

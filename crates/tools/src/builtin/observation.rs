//! A cell's result in the form in which a model reads it: output as a terminal shows it, and of long code the lines around the error.

use cellblock_protocol::{CellResult, ForModel, Status, Stream};
use cellblock_session::Session;

/// The lines of code that are shown whole after an error. Of longer code, the lines around the failing one are shown.
const MAX_WHOLE_LINES: usize = 12;

/// The lines before and after the failing line that are shown.
const LINES_AROUND: usize = 5;

/// The lines in a row that are shown before a repetition is only counted.
const MAX_REPEATED_LINES: usize = 3;

/// The bytes of the end of an output that the result does not hold.
const TAIL_BYTES: u64 = 16 << 10;

/// The result as the text that a model reads.
pub(super) async fn text_for_model(
    result: &CellResult,
    code: &str,
    options: &ForModel,
    session: Option<Session>,
) -> String {
    let mut shown = result.clone();
    if let Some(session) = session {
        add_end_of_output(&mut shown, &session).await;
    }
    let output = as_on_terminal(&shown.output);
    if output != shown.output {
        shown.output = output;
    }
    let text = shown.for_model(code, options);
    match excerpt(result, code) {
        Some(excerpt) => text.replacen(&numbered(code, 1), &excerpt, 1),
        None => text,
    }
}

/// Adds the true end of an output that is too long for the result, which holds its beginning.
async fn add_end_of_output(result: &mut CellResult, session: &Session) {
    let cut = result.truncated.as_ref().and_then(|streams| streams.output);
    let Some(cut) = cut else {
        return;
    };
    let total = cut.kept + cut.left_out;
    let length = TAIL_BYTES.min(cut.left_out);
    let offset = total - length;
    let tail = session.read_output(result.cell, Stream::Output, offset, length);
    let Ok(tail) = tail.await else {
        return;
    };
    let missing = offset - cut.kept;
    if missing > 0 {
        let cell = result.cell;
        let kept = cut.kept;
        result.output.push_str(&format!(
            "\n[… {missing} bytes left out; read them with read_output(cell={cell}, offset={kept}) …]\n"
        ));
    }
    result.output.push_str(&tail);
    if let Some(streams) = &mut result.truncated {
        streams.output = None;
    }
}

/// A text as a terminal shows it: lines that are written over with `\r` in their last state, no escape codes, and repeated lines counted.
fn as_on_terminal(text: &str) -> String {
    let has_marks = text.contains(['\r', '\u{1b}', '\u{8}']);
    let plain = if has_marks {
        let lines = text.split('\n').map(last_state);
        lines.collect::<Vec<_>>().join("\n")
    } else {
        text.to_owned()
    };
    count_repetitions(&plain)
}

/// The last state of a line that was written over, without escape codes.
fn last_state(line: &str) -> String {
    let mut shown: Vec<char> = Vec::new();
    let mut at: usize = 0;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_escape(&mut chars),
            '\r' => at = 0,
            '\u{8}' => at = at.saturating_sub(1),
            c => {
                if at < shown.len() {
                    shown[at] = c;
                } else {
                    shown.push(c);
                }
                at += 1;
            }
        }
    }
    shown.into_iter().collect()
}

/// Skips the rest of an escape sequence: `[…m` and other control sequences, `]…` up to its end, or one character.
fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.next() {
        Some('[') => {
            for c in chars.by_ref() {
                if ('@'..='~').contains(&c) {
                    return;
                }
            }
        }
        Some(']') => {
            while let Some(c) = chars.next() {
                if c == '\u{7}' || (c == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                    return;
                }
            }
        }
        _ => {}
    }
}

/// A text in which lines that repeat the line before them are counted instead of repeated.
fn count_repetitions(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut last: Option<&str> = None;
    let mut count = 0;
    let close = |lines: &mut Vec<String>, last: Option<&str>, count: usize| {
        let Some(line) = last else {
            return;
        };
        let shown = if count > MAX_REPEATED_LINES { 1 } else { count };
        lines.extend(std::iter::repeat_n(line.to_owned(), shown));
        if count > MAX_REPEATED_LINES {
            lines.push(format!("[… the same line {} more times …]", count - 1));
        }
    };
    for line in text.split('\n') {
        let is_same = last == Some(line) && !line.trim().is_empty();
        if is_same {
            count += 1;
            continue;
        }
        close(&mut lines, last, count);
        (last, count) = (Some(line), 1);
    }
    close(&mut lines, last, count);
    lines.join("\n")
}

/// Of the code of a cell that failed, the lines around the failing one. `None` where the code is short, or the line is not known.
fn excerpt(result: &CellResult, code: &str) -> Option<String> {
    let total = code.lines().count();
    if result.status != Status::Failure || total <= MAX_WHOLE_LINES {
        return None;
    }
    let line = failing_line(result)?;
    if line == 0 || line > total {
        return None;
    }
    let first = line.saturating_sub(LINES_AROUND).max(1);
    let last = (line + LINES_AROUND).min(total);
    let lines: Vec<&str> = code
        .lines()
        .skip(first - 1)
        .take(last + 1 - first)
        .collect();
    let mut parts = Vec::new();
    if first > 1 {
        parts.push(format!("[… lines 1 to {} …]", first - 1));
    }
    parts.push(numbered(&lines.join("\n"), first));
    if last < total {
        parts.push(format!("[… lines {} to {total} …]", last + 1));
    }
    Some(parts.join("\n"))
}

/// The last line of this cell in the traceback.
fn failing_line(result: &CellResult) -> Option<usize> {
    let error = result.error.as_ref()?;
    let place = format!("File \"<cell {}>\", line ", result.cell);
    let (_, rest) = error.traceback.rsplit_once(&place)?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Code with line numbers, as a failure shows it.
fn numbered(code: &str, first: usize) -> String {
    let lines = code
        .lines()
        .enumerate()
        .map(|(at, line)| format!("{:>4} | {line}", at + first));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::as_on_terminal;

    #[test]
    fn output_is_shown_as_on_a_terminal() {
        for (written, shown) in [
            ("a\nb\n", "a\nb\n"),
            ("10 %\r50 %\r100 %\ndone\n", "100 %\ndone\n"),
            ("\u{1b}[31mred\u{1b}[0m\n", "red\n"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("same\nsame\nsame\n", "same\nsame\nsame\n"),
            (
                "same\nsame\nsame\nsame\nend\n",
                "same\n[… the same line 3 more times …]\nend\n",
            ),
            ("a\r\nb\r\n", "a\nb\n"),
            ("\n\n\n\n\n", "\n\n\n\n\n"),
        ] {
            assert_eq!(as_on_terminal(written), shown, "{written:?}");
        }
    }
}

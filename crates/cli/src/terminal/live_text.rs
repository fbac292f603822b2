//! Output of code at a terminal while it comes: a line that is written over with `\r` stays one line.

use cellblock::strip_terminal_escapes;

/// Moves to the beginning of the line and clears it.
const CLEAR_LINE: &str = "\r\u{1b}[K";

/// The state of the terminal's last line, as far as output of code has written it.
#[derive(Debug, Default)]
pub(crate) struct LiveText {
    /// Whether the line has text and no end yet.
    is_mid_line: bool,
    /// Whether the next text begins the line anew.
    starts_over: bool,
}

impl LiveText {
    /// Whether the output so far ends in the middle of a line.
    pub(crate) fn is_mid_line(&self) -> bool {
        self.is_mid_line
    }

    /// The line was ended by other text.
    pub(crate) fn end_line(&mut self) {
        *self = LiveText::default();
    }

    /// The bytes to send to the terminal for a piece of output. Of escape sequences it contains only [`CLEAR_LINE`].
    pub(crate) fn on_terminal(&mut self, text: &str) -> String {
        let mut sent = String::with_capacity(text.len());
        // Where the unfinished line begins in `sent`, and whether a part of it is on the screen already.
        let mut line_start = 0;
        let mut is_on_screen = self.is_mid_line;
        for (at, part) in text.split('\r').enumerate() {
            self.starts_over |= at > 0;
            let part = strip_terminal_escapes(part);
            if part.is_empty() {
                continue;
            }
            let ends_line_only = part.starts_with('\n');
            if std::mem::take(&mut self.starts_over) && !ends_line_only {
                sent.truncate(line_start);
                if std::mem::take(&mut is_on_screen) {
                    sent.push_str(CLEAR_LINE);
                    line_start = sent.len();
                }
            }
            if let Some(last) = part.rfind('\n') {
                line_start = sent.len() + last + 1;
                is_on_screen = false;
            }
            sent.push_str(&part);
        }
        self.is_mid_line = is_on_screen || sent.len() > line_start;
        sent
    }

    /// Notes output that goes elsewhere unchanged.
    pub(crate) fn note_plain(&mut self, text: &str) {
        if !text.is_empty() {
            self.is_mid_line = !text.ends_with('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(pieces: &[&str]) -> Vec<String> {
        let mut text = LiveText::default();
        pieces.iter().map(|one| text.on_terminal(one)).collect()
    }

    #[test]
    fn a_progress_bar_stays_on_its_line() {
        assert_eq!(
            sent(&["\r 10 %", "\r 20 %", "\r100 %\n", "done\n"]),
            [" 10 %", "\r\u{1b}[K 20 %", "\r\u{1b}[K100 %\n", "done\n"]
        );
        assert_eq!(sent(&["a\r", "b\r", "\n"]), ["a", "\r\u{1b}[Kb", "\n"]);
    }

    #[test]
    fn of_many_states_in_one_piece_the_last_is_sent() {
        assert_eq!(sent(&["x\n1 %\r2 %\r3 %"]), ["x\n3 %"]);
        assert_eq!(sent(&["1 %", "\r2 %\r3 %"]), ["1 %", "\r\u{1b}[K3 %"]);
    }

    #[test]
    fn line_ends_of_windows_are_line_ends() {
        assert_eq!(sent(&["a\r\nb\r\n"]), ["a\nb\n"]);
        assert_eq!(sent(&["a\r", "\nb"]), ["a", "\nb"]);
    }

    #[test]
    fn no_other_sequence_reaches_the_terminal() {
        assert_eq!(
            sent(&["\u{1b}[2J\u{1b}]0;title\u{7}a\r\u{1b}[1A\u{202e}b"]),
            ["b"]
        );
    }
}

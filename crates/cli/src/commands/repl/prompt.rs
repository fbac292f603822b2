//! Input of several lines: what stands at the beginning of the second line and those below it.
//!
//! The line editor has one prompt, for the first line. So that code below stays aligned with it, the mark is part of the text that
//! is edited; it is put there with a new line, goes with it, and is taken out before the code is run.

/// What stands before the first line.
pub(crate) const FIRST: &str = ">>> ";
/// The same where a crash would cost more than the cell: as wide, so that the lines below stay aligned.
pub(crate) const FIRST_NOT_ARMED: &str = "!>> ";
/// What stands before the others.
pub(crate) const MORE: &str = "... ";

/// The code without the marks. Pasted lines have none.
pub(crate) fn without_marks(text: &str) -> String {
    let lines: Vec<&str> = text
        .split('\n')
        .enumerate()
        .map(|(at, line)| {
            if at == 0 {
                line
            } else {
                line.strip_prefix(MORE).unwrap_or(line)
            }
        })
        .collect();
    lines.join("\n")
}

/// The code with a mark before every line but the first.
pub(crate) fn with_marks(code: &str) -> String {
    code.replace('\n', &format!("\n{MORE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_and_go() {
        let code = "def f():\n    return 1\n";
        assert_eq!(with_marks(code), "def f():\n...     return 1\n... ");
        assert_eq!(without_marks(&with_marks(code)), code);
    }

    #[test]
    fn a_pasted_line_stays_as_it_is() {
        assert_eq!(without_marks("x = [\n  1,\n... 2]"), "x = [\n  1,\n2]");
    }
}

//! Whether an input is finished, and how far the next line is indented.

use super::scanner::{Scan, Token, TokenKind, scan};
use std::mem;

const INDENT_SPACES: usize = 4;

/// Whether Enter should run the input: no bracket, text or backslash is open, and a block ends with a blank line.
pub(crate) fn is_complete(code: &str) -> bool {
    let shape = Shape::of(code);
    let last_line_is_blank = code
        .rsplit_once('\n')
        .is_some_and(|(_, last)| last.trim().is_empty());
    !shape.is_open && !shape.wants_body && (!shape.has_block || last_line_is_blank)
}

/// The blanks that a line after this code most likely begins with.
pub(crate) fn indent_after(code: &str) -> usize {
    let scanned = scan(code);
    let last_line = code.rsplit('\n').next().unwrap_or_default();
    let indent = last_line.len() - last_line.trim_start().len();
    if scanned.depth > 0 {
        let opens = last_line.trim_end().ends_with(['(', '[', '{']);
        return indent + if opens { INDENT_SPACES } else { 0 };
    }
    if scanned.is_open {
        return if scanned.tokens.last().is_some_and(is_text) {
            0
        } else {
            indent
        };
    }
    let lines = logical_lines(&scanned);
    let Some(line) = lines.last() else { return 0 };
    if last_line.trim().is_empty() {
        return indent;
    }
    let indent = indent_of(code, line);
    let leaves = matches!(
        &code[line[0].range.clone()],
        "return" | "pass" | "raise" | "break" | "continue"
    );
    match () {
        () if ends_with_colon(code, line) => indent + INDENT_SPACES,
        () if leaves => indent.saturating_sub(INDENT_SPACES),
        () => indent,
    }
}

/// What a prompt must know about an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// A bracket, a triple-quoted text or a backslash is open.
    pub(super) is_open: bool,
    /// There is a `def`, an `if` or the like that has a body on lines of its own.
    pub(super) has_block: bool,
    /// That body, or the function below a decorator, has not begun.
    pub(super) wants_body: bool,
}

impl Shape {
    pub(super) fn of(code: &str) -> Shape {
        let scanned = scan(code);
        let lines = logical_lines(&scanned);
        let wants_body =
            |line: &&[&Token]| ends_with_colon(code, line) || line[0].kind == TokenKind::Decorator;
        Shape {
            is_open: scanned.is_open || scanned.depth > 0,
            has_block: lines
                .iter()
                .any(|line| wants_body(&&line[..]) || indent_of(code, line) > 0),
            wants_body: lines.last().is_some_and(|line| wants_body(&&line[..])),
        }
    }
}

/// The lines as Python sees them: comments and blank lines gone, open brackets joined.
fn logical_lines(scanned: &Scan) -> Vec<Vec<&Token>> {
    let ends = |token: &Token| token.kind == TokenKind::Newline && token.depth == 0;
    let matters = |token: &&Token| !matches!(token.kind, TokenKind::Comment | TokenKind::Newline);
    let lines = scanned.tokens.split(ends);
    let lines = lines.map(|line| line.iter().filter(matters).collect::<Vec<_>>());
    lines.filter(|line| !line.is_empty()).collect()
}

fn ends_with_colon(code: &str, line: &[&Token]) -> bool {
    line.last()
        .is_some_and(|token| token.depth == 0 && &code[token.range.clone()] == ":")
}

fn indent_of(code: &str, line: &[&Token]) -> usize {
    let start = line[0].range.start;
    start - code[..start].rfind('\n').map_or(0, |at| at + 1)
}

fn is_text(token: &Token) -> bool {
    token.kind == TokenKind::Text
}

/// Gathers lines until they are a statement. Unlike at a prompt, a blank line inside a block is just a blank line: a block
/// ends where a line begins at the left edge again.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    gathered: String,
}

impl Blocks {
    /// Takes a line, without its newline, and returns the statements that are finished now.
    pub(crate) fn push(&mut self, line: &str) -> Vec<String> {
        let mut finished = Vec::new();
        if !self.gathered.is_empty() {
            let shape = Shape::of(&self.gathered);
            if !shape.is_open && !shape.wants_body && begins_anew(line) {
                finished.extend(self.finish());
            }
        } else if line.trim().is_empty() {
            return finished;
        }
        self.gathered.push_str(line);
        self.gathered.push('\n');
        let shape = Shape::of(&self.gathered);
        if !shape.is_open && !shape.has_block {
            finished.extend(self.finish());
        }
        finished
    }

    /// What is left when no more lines come.
    pub(crate) fn finish(&mut self) -> Option<String> {
        let code = mem::take(&mut self.gathered);
        (!code.trim().is_empty()).then(|| code.trim_end().to_owned())
    }

    /// Whether nothing is waiting for more lines.
    pub(crate) fn is_empty(&self) -> bool {
        self.gathered.is_empty()
    }
}

/// Whether the line belongs to no block before it.
fn begins_anew(line: &str) -> bool {
    const GO_ON: [&str; 4] = ["else", "elif", "except", "finally"];
    let word: String = line.chars().take_while(|c| c.is_alphanumeric()).collect();
    let is_blank = line.trim().is_empty() || line.starts_with([' ', '\t', '#']);
    !is_blank && !GO_ON.contains(&word.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_complete_at_once() {
        for code in [
            "",
            "x = 1",
            "x = 1  # a comment:",
            "for i in range(3): print(i)",
            "f(1,\n  2)",
            "'''a\nb'''",
            "a = 1\nb = 2",
            "x = 'unclosed",
            "d = {'a': 1}",
            ")",
        ] {
            assert!(is_complete(code), "{code:?}");
        }
    }

    #[test]
    fn what_is_open_goes_on() {
        for code in [
            "f(1,",
            "x = [\n1,",
            "'''a\n",
            "x = 1 + \\",
            "x = 1 + \\\n",
            "def f():",
            "def f():  # why",
            "@cache",
            "@cache\n",
            "class A:\n",
            "if x:\n    y = 1",
            "if x:\n    y = 1\nelse:",
            "if x:\n    y = 1\nelse:\n",
            "s = 'a \\\n",
        ] {
            assert!(!is_complete(code), "{code:?}");
        }
    }

    #[test]
    fn a_blank_line_ends_a_block() {
        for code in [
            "def f():\n    return 1\n",
            "def f():\n    return 1\n    ",
            "@cache\ndef f():\n    return (1,\n 2)\n",
            "if x:\n    y = 1\nelse:\n    y = 2\n",
        ] {
            assert!(is_complete(code), "{code:?}");
        }
    }

    #[test]
    fn the_next_line_is_indented_like_its_block() {
        let cases = [
            ("x = 1", 0),
            ("def f():", 4),
            ("def f():\n    x = 1", 4),
            ("def f():\n    if x:", 8),
            ("def f():\n    return 1", 0),
            ("f(", 4),
            ("f(\n    1,", 4),
            ("'''a", 0),
            ("def f():\n    x = 1\n    ", 4),
        ];
        for (code, indent) in cases {
            assert_eq!(indent_after(code), indent, "{code:?}");
        }
    }
}

#[cfg(test)]
mod blocks_tests {
    use super::*;

    fn cut(text: &str) -> Vec<String> {
        let mut blocks = Blocks::default();
        let mut cells: Vec<String> = text.lines().flat_map(|line| blocks.push(line)).collect();
        cells.extend(blocks.finish());
        cells
    }

    #[test]
    fn every_statement_is_a_cell() {
        let text = "x = 1\n\nprint(x,\n  2)\ndef f():\n    y = 1\n\n    return y\nif x:\n    f()\nelse:\n    pass\nf()\n";
        let expected = [
            "x = 1",
            "print(x,\n  2)",
            "def f():\n    y = 1\n\n    return y",
            "if x:\n    f()\nelse:\n    pass",
            "f()",
        ];
        assert_eq!(cut(text), expected);
    }

    #[test]
    fn a_decorator_stays_with_its_function() {
        let text = "@cache\ndef f():\n    return 1\n@cache\ndef g(): return 2\nf()";
        let expected = [
            "@cache\ndef f():\n    return 1",
            "@cache\ndef g(): return 2",
            "f()",
        ];
        assert_eq!(cut(text), expected);
    }
}

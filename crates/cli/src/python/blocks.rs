//! Lines that come from a file or a pipe, cut into statements.

use super::shape::Shape;
use std::mem;

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

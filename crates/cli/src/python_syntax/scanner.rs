//! A scanner that never fails: half-typed code is what it is for.

use std::ops::Range;

/// A piece of the code that is more than blank space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) range: Range<usize>,
    /// How many brackets are open around it.
    pub(crate) depth: usize,
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Keyword,
    Builtin,
    Name,
    Definition,
    Decorator,
    Text,
    Number,
    Comment,
    Symbol,
    Newline,
}

/// All tokens, and what is still open at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) tokens: Vec<Token>,
    /// Brackets that are not closed.
    pub(crate) depth: usize,
    /// A triple-quoted text is not closed, or a backslash says that the line goes on.
    pub(crate) is_open: bool,
}

/// Cuts code into tokens.
pub(crate) fn scan(code: &str) -> Scan {
    let mut scanner = Scanner {
        code,
        at: 0,
        scan: Scan::default(),
    };
    while let Some(next) = scanner.peek() {
        scanner.step(next);
    }
    scanner.scan
}

struct Scanner<'a> {
    code: &'a str,
    at: usize,
    scan: Scan,
}

impl<'a> Scanner<'a> {
    fn step(&mut self, next: char) {
        match next {
            '\n' => self.take(TokenKind::Newline, 1),
            '#' => {
                let length = self.rest().find('\n').unwrap_or(self.rest().len());
                self.take(TokenKind::Comment, length);
            }
            '"' | '\'' => self.text(0),
            '\\' => self.backslash(),
            '@' if self.begins_line() => self.decorator(),
            '(' | '[' | '{' => {
                self.take(TokenKind::Symbol, 1);
                self.scan.depth += 1;
            }
            ')' | ']' | '}' => {
                self.scan.depth = self.scan.depth.saturating_sub(1);
                self.take(TokenKind::Symbol, 1);
            }
            _ if next.is_whitespace() => self.at += next.len_utf8(),
            _ if next.is_ascii_digit() => self.number(),
            _ if is_word(next) => self.word(),
            _ => self.take(TokenKind::Symbol, next.len_utf8()),
        }
    }

    fn word(&mut self) {
        let length = self
            .rest()
            .find(|c: char| !is_word(c))
            .unwrap_or(self.rest().len());
        let word = &self.rest()[..length];
        if is_text_prefix(word) && self.rest()[length..].starts_with(['"', '\'']) {
            return self.text(length);
        }
        let previous = self.scan.tokens.last();
        let after = |names: [&str; 2]| {
            previous.is_some_and(|token| names.contains(&&self.code[token.range.clone()]))
        };
        let kind = if after(["def", "class"]) {
            TokenKind::Definition
        } else if after([".", "."]) {
            // An attribute may be called like a builtin.
            TokenKind::Name
        } else if KEYWORDS.contains(&word) && (!is_soft(word) || self.begins_line()) {
            TokenKind::Keyword
        } else if builtins().any(|name| name == word) {
            TokenKind::Builtin
        } else {
            TokenKind::Name
        };
        self.take(kind, length);
    }

    fn number(&mut self) {
        let rest = self.rest();
        let mut length = 0;
        for (at, c) in rest.char_indices() {
            let is_sign_of_exponent = matches!(c, '+' | '-')
                && rest[..at].ends_with(['e', 'E'])
                && !rest.starts_with("0x")
                && !rest.starts_with("0X");
            if !(c == '.' || is_word(c) || is_sign_of_exponent) {
                break;
            }
            length = at + c.len_utf8();
        }
        self.take(TokenKind::Number, length);
    }

    /// A text whose quotes stand `prefix` bytes ahead. One that is not triple-quoted ends with its line at the latest.
    fn text(&mut self, prefix: usize) {
        let body = &self.rest()[prefix..];
        let quote = body.chars().next().unwrap_or('"');
        let triple: String = std::iter::repeat_n(quote, 3).collect();
        let is_triple = body.starts_with(&triple);
        let close = if is_triple { &triple[..] } else { &triple[..1] };
        let mut characters = body.char_indices().skip(close.len());
        let mut length = None;
        while let Some((at, c)) = characters.next() {
            if c == '\\' {
                characters.next();
            } else if body[at..].starts_with(close) {
                length = Some(at + close.len());
                break;
            } else if c == '\n' && !is_triple {
                length = Some(at);
                break;
            }
        }
        let goes_on = is_triple || body.ends_with("\\\n") || body.ends_with('\\');
        self.scan.is_open = length.is_none() && goes_on;
        self.take(TokenKind::Text, prefix + length.unwrap_or(body.len()));
    }

    fn backslash(&mut self) {
        let rest = &self.rest()[1..];
        self.at += 1;
        if let Some(next) = rest
            .strip_prefix("\r\n")
            .or_else(|| rest.strip_prefix('\n'))
        {
            self.at += rest.len() - next.len();
            self.scan.is_open = next.trim().is_empty() && !next.contains('\n');
        } else if rest.is_empty() {
            self.scan.is_open = true;
        }
    }

    fn decorator(&mut self) {
        let name = self.rest()[1..].find(|c: char| !is_word(c) && c != '.');
        self.take(
            TokenKind::Decorator,
            name.map_or(self.rest().len(), |length| 1 + length),
        );
    }

    fn take(&mut self, kind: TokenKind, length: usize) {
        let range = self.at..self.at + length;
        self.at = range.end;
        self.scan.tokens.push(Token {
            kind,
            range,
            depth: self.scan.depth,
        });
    }

    fn begins_line(&self) -> bool {
        self.scan.depth == 0
            && self
                .scan
                .tokens
                .last()
                .is_none_or(|token| token.kind == TokenKind::Newline)
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn rest(&self) -> &'a str {
        &self.code[self.at..]
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// `r`, `b`, `f`, `u`, `t` and their pairs, in any case.
fn is_text_prefix(word: &str) -> bool {
    word.len() <= 2
        && word
            .chars()
            .all(|c| matches!(c.to_ascii_lowercase(), 'r' | 'b' | 'f' | 'u' | 't'))
}

fn is_soft(word: &str) -> bool {
    matches!(word, "match" | "case")
}

/// Keywords, the soft ones at the end.
pub(crate) const KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield", "match", "case",
];

/// The exceptions that are most often named.
const EXCEPTIONS: &[&str] = &[
    "ArithmeticError",
    "AssertionError",
    "AttributeError",
    "BaseException",
    "EOFError",
    "Exception",
    "FileNotFoundError",
    "ImportError",
    "IndexError",
    "KeyError",
    "KeyboardInterrupt",
    "MemoryError",
    "ModuleNotFoundError",
    "NameError",
    "NotImplementedError",
    "OSError",
    "PermissionError",
    "RecursionError",
    "RuntimeError",
    "StopIteration",
    "SyntaxError",
    "SystemExit",
    "TimeoutError",
    "TypeError",
    "UnicodeDecodeError",
    "ValueError",
    "ZeroDivisionError",
];

/// Built-in functions and types, and the exceptions that are most often named.
pub(crate) fn builtins() -> impl Iterator<Item = &'static str> {
    let functions = cellblock::tools::names::PYTHON_BUILTINS;
    functions.iter().chain(EXCEPTIONS).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use TokenKind::*;

    fn kinds(code: &str) -> Vec<(TokenKind, &str)> {
        scan(code)
            .tokens
            .into_iter()
            .map(|token| (token.kind, &code[token.range]))
            .collect()
    }

    #[test]
    fn words_numbers_texts_and_comments_are_told_apart() {
        let expected = [
            (Name, "x"),
            (Symbol, "="),
            (Builtin, "len"),
            (Symbol, "("),
            (Text, "rb'a\\'b'"),
            (Symbol, ")"),
            (Symbol, "+"),
            (Number, "1.5e-3"),
            (Keyword, "if"),
            (Keyword, "True"),
            (Comment, "# why"),
        ];
        assert_eq!(kinds("x = len(rb'a\\'b') + 1.5e-3 if True # why"), expected);
    }

    #[test]
    fn an_attribute_is_no_builtin_and_a_name_is_no_text() {
        assert_eq!(
            kinds("a.list"),
            [(Name, "a"), (Symbol, "."), (Name, "list")]
        );
        assert_eq!(kinds("fr = 1")[0], (Name, "fr"));
    }

    #[test]
    fn match_is_a_keyword_only_where_a_statement_begins() {
        assert_eq!(kinds("match x:")[0], (Keyword, "match"));
        assert_eq!(kinds("re.match(x)")[2], (Name, "match"));
        assert_eq!(kinds("x = match")[2], (Name, "match"));
    }

    #[test]
    fn a_plain_text_ends_with_its_line_and_a_triple_one_does_not() {
        let plain = scan("x = 'a\ny");
        assert_eq!((plain.is_open, plain.tokens.len()), (false, 5));
        assert!(scan("x = '''a\ny").is_open);
        assert!(!scan("x = '''a\ny'''").is_open);
    }

    #[test]
    fn any_text_at_all_can_be_scanned() {
        for code in ["\\", "'", "é\"", "@", "\u{0}\r\n", "f'", "0x", ")", "'''\\"] {
            scan(code);
        }
    }
}

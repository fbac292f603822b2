//! Highlighting of code: a small scanner with one table per language.
//!
//! It never fails, because half-typed code and code that a model is still writing are what it is used for. A grammar library
//! would add megabytes to the program for colours.

use super::escape::push_escaped;

/// What a language looks like, as far as colours need it.
struct Language {
    /// Names of the language, as they stand after ``` in Markdown.
    names: &'static [&'static str],
    keywords: &'static [&'static str],
    builtins: &'static [&'static str],
    line_comments: &'static [&'static str],
    /// Whether `"""` and `'''` begin texts of several lines.
    has_triple_quotes: bool,
    /// Whether `'` begins a text.
    has_single_quotes: bool,
    /// Whether keywords count in any case, as in SQL.
    ignores_case: bool,
    /// Whether `@name` at the beginning of a line is a decorator.
    has_decorators: bool,
}

const PYTHON: Language = Language {
    names: &["python", "py", "python3", "ipython"],
    keywords: &[
        "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class",
        "continue", "def", "del", "elif", "else", "except", "finally", "for", "from", "global",
        "if", "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return",
        "try", "while", "with", "yield",
    ],
    builtins: cellblock_tools::names::PYTHON_BUILTINS,
    line_comments: &["#"],
    has_triple_quotes: true,
    has_single_quotes: true,
    ignores_case: false,
    has_decorators: true,
};

const JSON: Language = Language {
    names: &["json", "jsonl"],
    keywords: &["true", "false", "null"],
    builtins: &[],
    line_comments: &[],
    has_triple_quotes: false,
    has_single_quotes: false,
    ignores_case: false,
    has_decorators: false,
};

const SHELL: Language = Language {
    names: &["bash", "sh", "shell", "console", "zsh"],
    keywords: &[
        "if", "then", "else", "elif", "fi", "for", "while", "do", "done", "case", "esac", "in",
        "function", "return", "export", "local", "set",
    ],
    builtins: &[
        "cd",
        "echo",
        "ls",
        "cat",
        "grep",
        "sed",
        "awk",
        "mkdir",
        "rm",
        "cp",
        "mv",
        "pip",
        "python3",
        "cellblock",
    ],
    line_comments: &["#"],
    has_triple_quotes: false,
    has_single_quotes: true,
    ignores_case: false,
    has_decorators: false,
};

const SQL: Language = Language {
    names: &["sql", "sqlite", "postgresql"],
    keywords: &[
        "select", "from", "where", "group", "by", "order", "having", "limit", "offset", "insert",
        "into", "values", "update", "set", "delete", "create", "table", "index", "view", "drop",
        "alter", "join", "left", "right", "inner", "outer", "on", "as", "and", "or", "not", "null",
        "is", "in", "like", "between", "case", "when", "then", "else", "end", "union", "all",
        "distinct", "with", "asc", "desc",
    ],
    builtins: &[
        "count", "sum", "avg", "min", "max", "coalesce", "round", "cast",
    ],
    line_comments: &["--"],
    has_triple_quotes: false,
    has_single_quotes: true,
    ignores_case: true,
    has_decorators: false,
};

const JAVASCRIPT: Language = Language {
    names: &[
        "javascript",
        "js",
        "typescript",
        "ts",
        "rust",
        "rs",
        "c",
        "cpp",
        "java",
        "go",
    ],
    keywords: &[
        "async", "await", "break", "case", "catch", "class", "const", "continue", "else", "enum",
        "export", "false", "fn", "for", "function", "if", "impl", "import", "in", "let", "loop",
        "match", "mod", "mut", "new", "null", "of", "pub", "return", "self", "static", "struct",
        "switch", "this", "throw", "true", "try", "type", "use", "var", "void", "while",
    ],
    builtins: &[],
    line_comments: &["//"],
    has_triple_quotes: false,
    // A lifetime or a character is not the beginning of a text that goes on.
    has_single_quotes: false,
    ignores_case: false,
    has_decorators: false,
};

const LANGUAGES: [&Language; 5] = [&PYTHON, &JSON, &SHELL, &SQL, &JAVASCRIPT];

/// The HTML of `code`. A language that is not known is shown without colours.
pub(super) fn to_html(code: &str, language: &str) -> String {
    let mut html = String::with_capacity(code.len() * 2);
    let wanted = language.to_ascii_lowercase();
    match LANGUAGES
        .iter()
        .find(|known| known.names.contains(&wanted.as_str()))
    {
        Some(known) => Scanner {
            rest: code,
            html: &mut html,
            language: known,
            previous: "",
        }
        .run(),
        None => push_escaped(&mut html, code),
    }
    html
}

struct Scanner<'code, 'html> {
    rest: &'code str,
    html: &'html mut String,
    language: &'static Language,
    /// The word or symbol before, without blanks; empty at the beginning of a line.
    previous: &'code str,
}

impl<'code> Scanner<'code, '_> {
    fn run(mut self) {
        while let Some(next) = self.rest.chars().next() {
            self.step(next);
        }
    }

    fn step(&mut self, next: char) {
        let rest = self.rest;
        if self
            .language
            .line_comments
            .iter()
            .any(|mark| rest.starts_with(mark))
        {
            let length = rest.find('\n').unwrap_or(rest.len());
            return self.take("hl-comment", length);
        }
        let is_decorator = next == '@' && self.language.has_decorators && self.previous.is_empty();
        match next {
            '\n' => {
                self.take("", 1);
                self.previous = "";
            }
            '"' => self.text(0),
            '\'' if self.language.has_single_quotes => self.text(0),
            '@' if is_decorator => {
                let name = rest[1..].find(|c: char| !is_word(c) && c != '.');
                self.take("hl-decorator", name.map_or(rest.len(), |length| length + 1));
            }
            _ if next.is_ascii_digit() => self.number(),
            _ if is_word(next) => self.word(),
            _ if next.is_whitespace() => {
                let length = rest
                    .find(|c: char| !c.is_whitespace() || c == '\n')
                    .unwrap_or(rest.len());
                let previous = self.previous;
                self.take("", length);
                self.previous = previous;
            }
            _ => self.take("hl-symbol", next.len_utf8()),
        }
    }

    fn word(&mut self) {
        let length = self
            .rest
            .find(|c: char| !is_word(c))
            .unwrap_or(self.rest.len());
        let word = &self.rest[..length];
        let is_prefix = length <= 2 && word.chars().all(|c| "rbfutRBFUT".contains(c));
        if self.language.has_triple_quotes
            && is_prefix
            && self.rest[length..].starts_with(['"', '\''])
        {
            return self.text(length);
        }
        let lower = word.to_ascii_lowercase();
        let is_listed = |list: &[&str]| {
            list.contains(&word) || (self.language.ignores_case && list.contains(&lower.as_str()))
        };
        let class = if self.previous == "." {
            ""
        } else if matches!(self.previous, "def" | "class" | "fn" | "function") {
            "hl-definition"
        } else if is_listed(self.language.keywords) {
            "hl-keyword"
        } else if is_listed(self.language.builtins) {
            "hl-builtin"
        } else {
            ""
        };
        self.take(class, length);
    }

    fn number(&mut self) {
        let rest = self.rest;
        let is_hexadecimal = rest.starts_with("0x") || rest.starts_with("0X");
        let length = rest
            .char_indices()
            .find(|&(at, c)| {
                let is_exponent_sign =
                    matches!(c, '+' | '-') && rest[..at].ends_with(['e', 'E']) && !is_hexadecimal;
                !(c == '.' || is_word(c) || is_exponent_sign)
            })
            .map_or(rest.len(), |(at, _)| at);
        self.take("hl-number", length);
    }

    /// A text whose quotes stand `prefix` bytes ahead. One without triple quotes ends with its line at the latest.
    fn text(&mut self, prefix: usize) {
        let body = &self.rest[prefix..];
        let quote = if body.starts_with('\'') {
            "'''"
        } else {
            "\"\"\""
        };
        let is_triple = self.language.has_triple_quotes && body.starts_with(quote);
        let close = if is_triple { quote } else { &quote[..1] };
        let mut characters = body.char_indices().skip(close.len());
        let mut length = body.len();
        while let Some((at, c)) = characters.next() {
            if c == '\\' {
                characters.next();
            } else if body[at..].starts_with(close) {
                length = at + close.len();
                break;
            } else if c == '\n' && !is_triple {
                length = at;
                break;
            }
        }
        self.take("hl-text", prefix + length);
    }

    fn take(&mut self, class: &str, length: usize) {
        let (piece, rest) = self.rest.split_at(length);
        self.rest = rest;
        self.previous = piece;
        if class.is_empty() {
            return push_escaped(self.html, piece);
        }
        self.html.push_str("<span class=\"");
        self.html.push_str(class);
        self.html.push_str("\">");
        push_escaped(self.html, piece);
        self.html.push_str("</span>");
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn python_gets_its_colours() {
        assert_eq!(
            to_html("def f(x): return len(x.len) # <", "py"),
            "<span class=\"hl-keyword\">def</span> <span class=\"hl-definition\">f</span><span class=\"hl-symbol\">(</span>x\
             <span class=\"hl-symbol\">)</span><span class=\"hl-symbol\">:</span> <span class=\"hl-keyword\">return</span> \
             <span class=\"hl-builtin\">len</span><span class=\"hl-symbol\">(</span>x<span class=\"hl-symbol\">.</span>len\
             <span class=\"hl-symbol\">)</span> <span class=\"hl-comment\"># &lt;</span>"
        );
    }

    #[test]
    fn a_triple_quoted_text_goes_over_lines_and_a_plain_one_does_not() {
        assert_eq!(
            to_html("f'''a\nb", "python"),
            "<span class=\"hl-text\">f&#39;&#39;&#39;a\nb</span>"
        );
        assert_eq!(
            to_html("'a\nb", "python"),
            "<span class=\"hl-text\">&#39;a</span>\nb"
        );
    }

    #[test]
    fn an_unknown_language_is_shown_as_it_is() {
        assert_eq!(to_html("if <x>", "klingon"), "if &lt;x&gt;");
    }

    proptest! {
        /// Without its own tags, the HTML is the escaped code: nothing is lost, nothing becomes markup.
        #[test]
        fn the_text_stays_the_same_text(code in "[a-f0-9 '\"\\\\\n#@<>&.(é\u{0}]{0,60}", which in 0usize..6) {
            let language = ["python", "json", "bash", "sql", "js", "none"][which];
            let html = to_html(&code, language);
            let mut text = html.replace("</span>", "");
            while let Some(start) = text.find("<span class=\"") {
                let end = start + text[start..].find('>').unwrap();
                text.replace_range(start..=end, "");
            }
            prop_assert_eq!(text, super::super::escape::escaped(&code));
        }
    }
}

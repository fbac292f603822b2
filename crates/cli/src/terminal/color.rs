//! Colours, and when to use them.

use std::env;

/// What the user says about colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorWish {
    /// On a terminal, unless the environment says otherwise
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl ColorWish {
    /// Whether a stream gets colours: the wish, else `NO_COLOR`, `CLICOLOR_FORCE` and `CLICOLOR` in this order, else
    /// whether it is a terminal that has any.
    pub(crate) fn applies_to(self, is_terminal: bool) -> bool {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        match self {
            ColorWish::Always => true,
            ColorWish::Never => false,
            ColorWish::Auto if set("NO_COLOR").is_some() => false,
            ColorWish::Auto if set("CLICOLOR_FORCE").is_some_and(|value| value != "0") => true,
            ColorWish::Auto if set("CLICOLOR").is_some_and(|value| value == "0") => false,
            ColorWish::Auto => is_terminal && set("TERM").is_some_and(|term| term != "dumb"),
        }
    }
}

/// A role that a text has. What it looks like is decided here alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// What went wrong.
    Error,
    /// What to do about it.
    Hint,
    /// What went well.
    Good,
    /// What could be better.
    Warning,
    /// A title.
    Heading,
    /// What can be passed over.
    Dim,
    /// The prompt.
    Prompt,
    /// A keyword of Python.
    Keyword,
    /// A name that Python brings along.
    Builtin,
    /// A text in Python.
    Text,
    /// A number in Python.
    Number,
    /// A comment in Python.
    Comment,
    /// A decorator in Python.
    Decorator,
    /// The name that a `def` or `class` gives.
    Definition,
}

/// What ends every style.
const RESET: &str = "\u{1b}[0m";

impl Style {
    const ALL: [Style; 14] = [
        Style::Error,
        Style::Hint,
        Style::Good,
        Style::Warning,
        Style::Heading,
        Style::Dim,
        Style::Prompt,
        Style::Keyword,
        Style::Builtin,
        Style::Text,
        Style::Number,
        Style::Comment,
        Style::Decorator,
        Style::Definition,
    ];

    /// The text between the codes that switch the style on and off. The 16 colours of the terminal's own theme, so that
    /// they can be read on any background.
    pub(crate) fn paint(self, text: &str) -> String {
        format!("{}{text}{RESET}", self.code())
    }

    /// The code that switches the style on.
    fn code(self) -> &'static str {
        match self {
            Style::Error => "\u{1b}[1;31m",
            Style::Hint => "\u{1b}[1;36m",
            Style::Good => "\u{1b}[32m",
            Style::Warning => "\u{1b}[33m",
            Style::Heading => "\u{1b}[1m",
            Style::Dim | Style::Comment => "\u{1b}[2m",
            Style::Prompt => "\u{1b}[1;32m",
            Style::Keyword => "\u{1b}[35m",
            Style::Builtin => "\u{1b}[36m",
            Style::Text => "\u{1b}[32m",
            Style::Number => "\u{1b}[33m",
            Style::Decorator => "\u{1b}[33m",
            Style::Definition => "\u{1b}[1;34m",
        }
    }

    /// Splits a text before the first code of ours in it: what is before, the code, and the rest.
    pub(crate) fn split(text: &str) -> Option<(&str, &str, &str)> {
        text.match_indices('\u{1b}').find_map(|(at, _)| {
            let codes = Style::ALL.into_iter().map(Style::code);
            let mut codes = codes.chain([RESET]);
            let code = codes.find(|code| text[at..].starts_with(code))?;
            let (before, rest) = text.split_at(at);
            let (code, rest) = rest.split_at(code.len());
            Some((before, code, rest))
        })
    }
}

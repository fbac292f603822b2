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

impl Style {
    /// The text between the codes that switch the style on and off. The 16 colours of the terminal's own theme, so that
    /// they can be read on any background.
    pub(crate) fn paint(self, text: &str) -> String {
        let code = match self {
            Style::Error => "1;31",
            Style::Hint => "1;36",
            Style::Good => "32",
            Style::Warning => "33",
            Style::Heading => "1",
            Style::Dim | Style::Comment => "2",
            Style::Prompt => "1;32",
            Style::Keyword => "35",
            Style::Builtin => "36",
            Style::Text => "32",
            Style::Number => "33",
            Style::Decorator => "33",
            Style::Definition => "1;34",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

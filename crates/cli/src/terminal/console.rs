//! The two streams of the command: data on standard output, the rest on standard error.
//!
//! This is the only place that writes to them. A terminal never gets an escape sequence or a character that a reader
//! would not see, whatever the source of the text; of escape sequences only the codes of [`Style`] pass.

use super::live_text::LiveText;
use cellblock::{strip_terminal_escapes, visible_json, visible_name, visible_text};
use serde::Serialize;
use std::borrow::Cow;
use std::env;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

/// Where and how to print.
#[derive(Clone, Debug)]
pub(crate) struct Console {
    out: StreamFormat,
    err: StreamFormat,
}

/// What is known about one stream.
#[derive(Clone, Copy, Debug)]
struct StreamFormat {
    is_terminal: bool,
    is_coloured: bool,
}

impl Console {
    /// The streams of this process.
    #[expect(clippy::disallowed_methods, reason = "they are asked, not written to")]
    pub(crate) fn new(wish: ColorChoice) -> Console {
        let face = |is_terminal| StreamFormat {
            is_terminal,
            is_coloured: wish.applies_to(is_terminal),
        };
        Console {
            out: face(io::stdout().is_terminal()),
            err: face(io::stderr().is_terminal()),
        }
    }

    /// Whether a person sees standard output.
    pub(crate) fn out_is_terminal(&self) -> bool {
        self.out.is_terminal
    }

    /// Whether a person sees standard error.
    pub(crate) fn err_is_terminal(&self) -> bool {
        self.err.is_terminal
    }

    /// Whether standard output takes colours.
    pub(crate) fn out_is_coloured(&self) -> bool {
        self.out.is_coloured
    }

    /// Whether standard error takes colours.
    pub(crate) fn err_is_coloured(&self) -> bool {
        self.err.is_coloured
    }

    /// A text in a style, for standard output.
    pub(crate) fn on_out(&self, style: Style, text: &str) -> String {
        self.out.paint(style, text)
    }

    /// A text in a style, for standard error.
    pub(crate) fn on_err(&self, style: Style, text: &str) -> String {
        self.err.paint(style, text)
    }

    /// Writes text of this program to standard output. An error means that the reader is gone.
    pub(crate) fn print(&self, text: &str) -> io::Result<()> {
        write_out(&self.out.clean(text))
    }

    /// The same with a newline.
    pub(crate) fn print_line(&self, text: &str) -> io::Result<()> {
        self.print(&format!("{text}\n"))
    }

    /// Writes a guest's text to standard output; a terminal gets it without what a terminal would obey, colours included.
    pub(crate) fn print_guest(&self, text: &str) -> io::Result<()> {
        write_out(&self.out.safe(text))
    }

    /// Writes output of running code to standard output. On a terminal, a line that is written over stays one line.
    pub(crate) fn print_live(&self, line: &mut LiveText, text: &str) -> io::Result<()> {
        write_out(&self.out.live(line, text))
    }

    /// Writes output of running code to standard error. On a terminal, a line that is written over stays one line.
    pub(crate) fn say_live(&self, line: &mut LiveText, text: &str) {
        write_err(&self.err.live(line, text));
    }

    /// Writes a value as one line of JSON to standard output. It is exact everywhere: at a terminal, what is hidden is escaped.
    pub(crate) fn print_json(&self, value: &impl Serialize) -> io::Result<()> {
        self.print_json_text(&serde_json::to_string(value)?)
    }

    /// The same on several lines.
    pub(crate) fn print_pretty_json(&self, value: &impl Serialize) -> io::Result<()> {
        self.print_json_text(&serde_json::to_string_pretty(value)?)
    }

    fn print_json_text(&self, json: &str) -> io::Result<()> {
        let json = if self.out.is_terminal {
            visible_json(json)
        } else {
            Cow::Borrowed(json)
        };
        write_out(&format!("{json}\n"))
    }

    /// Writes text of this program to standard error. A failure is ignored: there is no place left to report it.
    pub(crate) fn say(&self, text: &str) {
        write_err(&format!("{}\n", self.err.clean(text)));
    }

    /// Writes a question to standard error. The answer stands behind it.
    pub(crate) fn ask(&self, text: &str) {
        write_err(&self.err.clean(text));
    }

    /// Asks a person yes or no. `None` where there is no terminal to ask at.
    pub(crate) fn confirm(&self, question: &str) -> Option<bool> {
        if !io::stdin().is_terminal() || !self.err_is_terminal() {
            return None;
        }
        self.ask(question);
        let mut line = String::new();
        let is_read = io::stdin().lock().read_line(&mut line).is_ok();
        Some(is_read && matches!(line.trim(), "y" | "yes" | "Y"))
    }

    /// Writes a guest's text to standard error, as it is or made harmless.
    pub(crate) fn say_guest(&self, text: &str) {
        write_err(&self.err.safe(text));
    }

    /// A guest's text as it may stand inside a message on standard output.
    pub(crate) fn safe_on_out<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.out.safe(text)
    }

    /// A guest's text as it may stand inside a message on standard error.
    pub(crate) fn safe_on_err<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.err.safe(text)
    }

    /// A name that a guest chose, as it may stand inside a line on standard output. Two names that differ look different.
    pub(crate) fn name_on_out<'a>(&self, name: &'a str) -> Cow<'a, str> {
        self.out.name(name)
    }

    /// A name that a guest chose, as it may stand inside a line on standard error.
    pub(crate) fn name_on_err<'a>(&self, name: &'a str) -> Cow<'a, str> {
        self.err.name(name)
    }

    /// A text that a person at standard error judges: what is hidden in it is written out.
    pub(crate) fn judged_on_err<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.err.is_terminal {
            visible_text(text)
        } else {
            Cow::Borrowed(text)
        }
    }

    /// `error: …`
    pub(crate) fn error(&self, text: &str) {
        self.note(&self.on_err(Style::Error, "error:"), text);
    }

    /// `hint: …`
    pub(crate) fn hint(&self, text: &str) {
        self.note(&self.on_err(Style::Hint, "hint:"), text);
    }

    /// A labelled line. Parts of it may come from a guest (a file name, a message).
    pub(crate) fn note(&self, label: &str, text: &str) {
        self.say(&format!("{label} {}", self.err.safe(text)));
    }
}

impl StreamFormat {
    fn paint(self, style: Style, text: &str) -> String {
        if self.is_coloured {
            style.paint(text)
        } else {
            text.to_owned()
        }
    }

    fn safe(self, text: &str) -> Cow<'_, str> {
        if self.is_terminal {
            strip_terminal_escapes(text)
        } else {
            Cow::Borrowed(text)
        }
    }

    fn live<'a>(self, line: &mut LiveText, text: &'a str) -> Cow<'a, str> {
        if self.is_terminal {
            Cow::Owned(line.on_terminal(text))
        } else {
            line.note_plain(text);
            Cow::Borrowed(text)
        }
    }

    fn name(self, name: &str) -> Cow<'_, str> {
        if self.is_terminal {
            visible_name(name)
        } else {
            Cow::Borrowed(name)
        }
    }

    /// Cleans a text of this program. It keeps the codes of [`Style`], and removes every other escape sequence: a guest's text may be part of it.
    fn clean(self, text: &str) -> Cow<'_, str> {
        if !self.is_terminal || matches!(strip_terminal_escapes(text), Cow::Borrowed(_)) {
            return Cow::Borrowed(text);
        }
        let mut cleaned = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, code, after)) = Style::split(rest) {
            cleaned.push_str(&strip_terminal_escapes(before));
            cleaned.push_str(code);
            rest = after;
        }
        cleaned.push_str(&strip_terminal_escapes(rest));
        Cow::Owned(cleaned)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the place that the lint leads to"
)]
fn write_out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the place that the lint leads to"
)]
fn write_err(text: &str) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(text.as_bytes());
    let _ = err.flush();
}

/// What the user says about colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless the environment says otherwise
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl ColorChoice {
    /// Whether a stream gets colours: the wish, else `NO_COLOR`, `CLICOLOR_FORCE` and `CLICOLOR` in this order, else
    /// whether it is a terminal that has any.
    pub(crate) fn applies_to(self, is_terminal: bool) -> bool {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        match self {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto if set("NO_COLOR").is_some() => false,
            ColorChoice::Auto if set("CLICOLOR_FORCE").is_some_and(|value| value != "0") => true,
            ColorChoice::Auto if set("CLICOLOR").is_some_and(|value| value == "0") => false,
            ColorChoice::Auto => is_terminal && set("TERM").is_some_and(|term| term != "dumb"),
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

    /// Splits a text at the first code of a style: the text before it, the code, and the rest.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_escapes_only_our_own_styles_reach_a_terminal() {
        let face = StreamFormat {
            is_terminal: true,
            is_coloured: true,
        };
        let painted = Style::Error.paint("wr\u{202e}ong\u{1b}[8m");
        let text = format!(
            "{painted} \u{1b}[2J\u{1b}]0;x\u{7}{}\n",
            Style::Dim.paint("quiet")
        );
        assert_eq!(
            face.clean(&text),
            "\u{1b}[1;31mwrong\u{1b}[0m \u{1b}[2mquiet\u{1b}[0m\n"
        );
        let elsewhere = StreamFormat {
            is_terminal: false,
            ..face
        };
        assert_eq!(elsewhere.clean(&text), text);
    }
}

//! The two streams of the command: data on standard output, the rest on standard error.

use super::{ColorWish, Style};
use cellblock::strip_terminal_escapes;
use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};

/// Where and how to print.
#[derive(Clone, Debug)]
pub(crate) struct Console {
    out: Face,
    err: Face,
}

/// What is known about one stream.
#[derive(Clone, Copy, Debug)]
struct Face {
    is_terminal: bool,
    is_coloured: bool,
}

impl Console {
    /// The streams of this process.
    pub(crate) fn new(wish: ColorWish) -> Console {
        let face = |is_terminal| Face {
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

    /// Writes our own text to standard output. An error means that nobody reads it any more.
    pub(crate) fn print(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// The same with a newline.
    pub(crate) fn print_line(&self, text: &str) -> io::Result<()> {
        self.print(&format!("{text}\n"))
    }

    /// Writes a guest's text to standard output; a terminal gets it without what a terminal would obey.
    pub(crate) fn print_guest(&self, text: &str) -> io::Result<()> {
        self.print(&self.out.safe(text))
    }

    /// Writes our own text to standard error. Nobody can be told when that fails.
    pub(crate) fn say(&self, text: &str) {
        let mut err = io::stderr().lock();
        let _ = err.write_all(text.as_bytes());
        let _ = err.write_all(b"\n");
    }

    /// Writes a guest's text to standard error, as it is or made harmless.
    pub(crate) fn say_guest(&self, text: &str) {
        let mut err = io::stderr().lock();
        let _ = err.write_all(self.err.safe(text).as_bytes());
        let _ = err.flush();
    }

    /// A guest's text as it may stand inside a message on standard output.
    pub(crate) fn safe_on_out<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.out.safe(text)
    }

    /// A guest's text as it may stand inside a message on standard error.
    pub(crate) fn safe_on_err<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.err.safe(text)
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

impl Face {
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
}

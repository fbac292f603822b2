//! Where the code comes from.

use crate::failure::Usage;
use cellblock::MAX_CODE_BYTES;
use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::path::Path;

/// A snippet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) code: String,
    /// Whether standard input is still there to answer questions of the code.
    pub(crate) leaves_stdin: bool,
    /// The file that holds the code, as the command line names it.
    pub(crate) file: Option<String>,
}

impl Source {
    /// Reads the code from where the command line says.
    pub(crate) fn read(code: Option<&str>, file: Option<&Path>) -> anyhow::Result<Source> {
        match (code, file) {
            (Some(code), _) => Ok(Source {
                code: code.to_owned(),
                leaves_stdin: true,
                file: None,
            }),
            (None, Some(path)) if path != Path::new("-") => {
                let name = path.display().to_string();
                let file = File::open(path).map_err(|error| unreadable(&name, &error))?;
                Ok(Source {
                    code: read_code(file, &name)?,
                    leaves_stdin: true,
                    file: Some(name),
                })
            }
            (None, None) if io::stdin().is_terminal() => Err(Usage::hinted(
                "there is no code to run",
                "give it with -c CODE, as a FILE, or on standard input; `cellblock repl` is a session at the terminal",
            )),
            (None, _) => Ok(Source {
                code: read_code(io::stdin().lock(), "standard input")?,
                leaves_stdin: false,
                file: None,
            }),
        }
    }
}

fn read_code(from: impl Read, name: &str) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    // One byte more than allowed is enough to know that it is too much.
    let most = MAX_CODE_BYTES as u64 + 1;
    from.take(most)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(name, &error))?;
    if bytes.len() > MAX_CODE_BYTES {
        let message = format!("{name} is too long: a cell has at most {MAX_CODE_BYTES} bytes");
        return Err(Usage::plain(message));
    }
    // Python, too, passes over a byte order mark.
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    match std::str::from_utf8(text) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => Err(Usage::hinted(
            format!(
                "{name} is not UTF-8: byte {} cannot be read",
                error.valid_up_to() + 1
            ),
            "save it as UTF-8",
        )),
    }
}

fn unreadable(name: &str, error: &io::Error) -> anyhow::Error {
    Usage::plain(format!("{name} cannot be read: {error}"))
}

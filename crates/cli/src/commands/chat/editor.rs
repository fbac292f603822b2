//! Where a person types: a line editor with a history, or plain lines where nobody sits at a terminal.

use super::orders::NAMES;
use crate::commands::live::Signals;
use crate::terminal::{Console, Style, TypedBefore};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Helper};
use std::io::{self, BufRead as _};
use tokio::runtime::Runtime;

const PROMPT: &str = "> ";

/// How many lines are remembered.
const MAX_HISTORY_ENTRIES: usize = 10_000;

/// The prompt of a chat.
pub(super) struct Editor {
    editor: rustyline::Editor<Orders, FileHistory>,
    history: TypedBefore,
    prompt: (String, String),
}

impl Editor {
    pub(super) fn new(console: &Console) -> anyhow::Result<Editor> {
        let config = Config::builder()
            .max_history_size(MAX_HISTORY_ENTRIES)?
            .history_ignore_dups(true)?
            .completion_type(CompletionType::List)
            .build();
        let mut editor = rustyline::Editor::with_config(config)?;
        editor.set_helper(Some(Orders));
        let history = TypedBefore::load("chat_history", &mut editor);
        Ok(Editor {
            editor,
            history,
            prompt: (PROMPT.to_owned(), console.on_out(Style::Prompt, PROMPT)),
        })
    }

    /// The next line; empty after Ctrl-C, none after Ctrl-D.
    pub(super) fn read(&mut self) -> anyhow::Result<Option<String>> {
        let line = match self.editor.readline(&self.prompt) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => return Ok(Some(String::new())),
            Err(ReadlineError::Eof) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if !line.trim().is_empty() {
            self.history.add(&line, &mut self.editor);
        }
        Ok(Some(line))
    }
}

/// The next line of a file or a program; none at its end, or at Ctrl-C.
pub(super) fn read_plain(
    runtime: &Runtime,
    signals: &mut Signals,
) -> anyhow::Result<Option<String>> {
    let reading = || {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        read.map(|bytes| (bytes > 0).then_some(line))
    };
    runtime.block_on(async {
        match signals.or(tokio::task::spawn_blocking(reading)).await {
            Ok(line) => Ok(line??),
            Err(_) => Ok(None),
        }
    })
}

/// Completes the names of orders.
struct Orders;

impl Helper for Orders {}
impl Validator for Orders {}
impl Highlighter for Orders {}

impl Hinter for Orders {
    type Hint = String;
}

impl Completer for Orders {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line[..at].strip_prefix('/');
        let fitting = typed.map(|typed| {
            let names = NAMES.iter().filter(|name| name.starts_with(typed));
            names.map(|name| format!("/{name}")).collect()
        });
        Ok((0, fitting.unwrap_or_default()))
    }
}

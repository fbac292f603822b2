//! The line editor: colours, completion, blocks, history.

use super::magics::MAGICS;
use super::questions::{Asked, Questions};
use super::shell::Names;
use crate::python_syntax::{KEYWORDS, builtins, indent_after, is_complete};
use crate::terminal::{Console, InputHistory, Style, highlight};
use cellblock::visible_name;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{
    Cmd, CompletionType, ConditionalEventHandler, Config, Context, EventContext, EventHandler,
    Helper, KeyCode, KeyEvent, Modifiers, Movement, RepeatCount,
};
use std::borrow::Cow;
use std::sync::PoisonError;

/// How many inputs are remembered.
const MAX_HISTORY_ENTRIES: usize = 10_000;

/// The prompt.
pub(crate) struct Editor {
    editor: rustyline::Editor<Assistant, FileHistory>,
    history: InputHistory,
    armed: (String, String),
    not_armed: (String, String),
}

/// What the prompt says.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Prompt {
    /// A crash in the next cell loses nothing.
    Armed,
    /// It would cost more than that cell.
    NotArmed,
}

/// What came of asking for input.
pub(crate) enum Typed {
    /// A cell or a magic.
    Input(String),
    /// Nothing, or Ctrl-C.
    Nothing,
    /// Ctrl-D.
    End,
}

impl Editor {
    /// An editor that asks the session, and completes these names where the session does not answer.
    pub(crate) fn new(
        names: Names,
        questions: Questions,
        console: &Console,
    ) -> anyhow::Result<Editor> {
        let config = Config::builder()
            .max_history_size(MAX_HISTORY_ENTRIES)?
            .history_ignore_dups(true)?
            .completion_type(CompletionType::List)
            .tab_stop(4)
            .indent_size(4)
            .build();
        let mut editor = rustyline::Editor::with_config(config)?;
        let is_coloured = console.out_is_coloured();
        let enter = Enter {
            questions: questions.clone(),
        };
        editor.set_helper(Some(Assistant {
            names,
            questions,
            is_coloured,
        }));
        let keys: [(KeyCode, Box<dyn ConditionalEventHandler>); 3] = [
            (KeyCode::Enter, Box::new(enter)),
            (KeyCode::Backspace, Box::new(Backspace)),
            (KeyCode::Tab, Box::new(Tab)),
        ];
        for (key, handler) in keys {
            editor.bind_sequence(
                KeyEvent(key, Modifiers::NONE),
                EventHandler::Conditional(handler),
            );
        }
        let history = InputHistory::load("repl_history", &mut editor);
        Ok(Editor {
            editor,
            history,
            armed: (FIRST.to_owned(), console.on_out(Style::Prompt, FIRST)),
            not_armed: (
                FIRST_NOT_ARMED.to_owned(),
                console.on_out(Style::Warning, FIRST_NOT_ARMED),
            ),
        })
    }

    /// Waits for an input, behind the prompt that says what a crash would cost.
    pub(crate) fn read(&mut self, prompt: Prompt) -> anyhow::Result<Typed> {
        let prompt = match prompt {
            Prompt::Armed => &self.armed,
            Prompt::NotArmed => &self.not_armed,
        };
        let text = match self.editor.readline(prompt) {
            Ok(text) => without_marks(&text),
            Err(ReadlineError::Interrupted) => return Ok(Typed::Nothing),
            Err(ReadlineError::Eof) => return Ok(Typed::End),
            Err(error) => return Err(error.into()),
        };
        let text = text.trim_end();
        if text.trim().is_empty() {
            return Ok(Typed::Nothing);
        }
        self.history.add(&with_marks(text), &mut self.editor);
        Ok(Typed::Input(text.to_owned()))
    }
}

/// What the line editor asks while one types.
struct Assistant {
    names: Names,
    questions: Questions,
    is_coloured: bool,
}

impl Helper for Assistant {}

/// Asked by terminals that cannot edit, where [`Enter`] is not heard.
impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(
            if is_finished(&without_marks(context.input()), &self.questions) {
                ValidationResult::Valid(None)
            } else {
                ValidationResult::Incomplete
            },
        )
    }
}

impl Hinter for Assistant {
    type Hint = String;
}

impl Highlighter for Assistant {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if !self.is_coloured || line.starts_with(['%', '!']) {
            return Cow::Borrowed(line);
        }
        let painted = highlight(&without_marks(line));
        let lines =
            line.split('\n')
                .zip(painted.split('\n'))
                .enumerate()
                .map(|(at, (raw, painted))| {
                    if at > 0 && raw.starts_with(MORE) {
                        format!("{}{painted}", Style::Dim.paint(MORE))
                    } else {
                        painted.to_owned()
                    }
                });
        Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        self.is_coloured && kind != CmdKind::MoveCursor
    }
}

impl Completer for Assistant {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let before = &line[..at];
        let start = before
            .rfind(|c: char| !(c == '_' || c.is_alphanumeric()))
            .map_or(0, |last| {
                last + before[last..].chars().next().map_or(0, char::len_utf8)
            });
        let word = &before[start..];
        if before.starts_with('%') && start == 1 {
            let magics = MAGICS
                .iter()
                .map(|magic| magic.name)
                .filter(|name| name.starts_with(word));
            return Ok((start, magics.map(str::to_owned).collect()));
        }
        let found = self.asked(before).unwrap_or_else(|| {
            let is_attribute = before[..start].ends_with('.');
            let known = if word.is_empty() || is_attribute {
                Vec::new()
            } else {
                self.known_names(word)
            };
            (word.len(), known)
        });
        let (replaced, texts) = found;
        // The line editor would print them as they are.
        let texts = texts
            .into_iter()
            .filter(|text| visible_name(text) == *text)
            .collect();
        Ok((at - replaced, texts))
    }
}

impl Assistant {
    /// The bytes before the cursor to replace, and with what, as the session says it. `None` where the session does not answer.
    fn asked(&self, before: &str) -> Option<(usize, Vec<String>)> {
        let code = without_marks(before);
        let Some(asked) = Asked::about(&code) else {
            return Some((0, Vec::new()));
        };
        Some(asked.matches(self.questions.complete(asked.cursor())?))
    }

    /// Names that are known here and begin with a word.
    fn known_names(&self, word: &str) -> Vec<String> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let known = KEYWORDS
            .iter()
            .copied()
            .chain(builtins())
            .map(str::to_owned);
        let mut found: Vec<String> = names
            .iter()
            .cloned()
            .chain(known)
            .filter(|name| name.starts_with(word))
            .collect();
        found.sort();
        found.dedup();
        found
    }
}

/// Enter runs what is complete, else it begins a line with the indentation that belongs there.
struct Enter {
    questions: Questions,
}

impl ConditionalEventHandler for Enter {
    fn handle(
        &self,
        _: &rustyline::Event,
        _: RepeatCount,
        _: bool,
        context: &EventContext<'_>,
    ) -> Option<Cmd> {
        let code = without_marks(context.line());
        if is_finished(&code, &self.questions) {
            return Some(Cmd::AcceptLine);
        }
        let indent = indent_after(&without_marks(&context.line()[..context.pos()]));
        Some(Cmd::Insert(1, format!("\n{MORE}{}", " ".repeat(indent))))
    }
}

/// Whether an input is a whole cell, a magic, or a line of the shell. The code below `%%time` ends with a blank line.
fn is_finished(code: &str, questions: &Questions) -> bool {
    if code.starts_with("%%") {
        return code.ends_with('\n') && code.trim().contains('\n');
    }
    code.starts_with(['%', '!'])
        || questions
            .is_complete(code)
            .unwrap_or_else(|| is_complete(code))
}

/// Backspace takes a whole step of indentation, or a whole line break with its mark (five characters).
struct Backspace;

impl ConditionalEventHandler for Backspace {
    fn handle(
        &self,
        _: &rustyline::Event,
        _: RepeatCount,
        _: bool,
        context: &EventContext<'_>,
    ) -> Option<Cmd> {
        let (_, line) = context.line()[..context.pos()].rsplit_once('\n')?;
        let blanks = line.strip_prefix(MORE)?;
        match blanks.len() {
            0 => Some(Cmd::Kill(Movement::BackwardChar(5))),
            length if length % 4 == 0 && blanks.trim().is_empty() => {
                Some(Cmd::Kill(Movement::BackwardChar(4)))
            }
            _ => None,
        }
    }
}

/// Tab completes a word, and indents where there is none.
struct Tab;

impl ConditionalEventHandler for Tab {
    fn handle(
        &self,
        _: &rustyline::Event,
        _: RepeatCount,
        _: bool,
        context: &EventContext<'_>,
    ) -> Option<Cmd> {
        let before = without_marks(&context.line()[..context.pos()]);
        let line = before.rsplit('\n').next().unwrap_or_default();
        line.trim()
            .is_empty()
            .then(|| Cmd::Insert(1, " ".repeat(4)))
    }
}

/// What stands before the first line.
pub(crate) const FIRST: &str = ">>> ";
/// The prompt while a crash would cost more than the next cell. It has the same width, so that the lines below stay aligned.
pub(crate) const FIRST_NOT_ARMED: &str = "!>> ";
/// What stands before the others.
pub(crate) const MORE: &str = "... ";

/// The code without the marks. Pasted lines have none.
pub(crate) fn without_marks(text: &str) -> String {
    let lines: Vec<&str> = text
        .split('\n')
        .enumerate()
        .map(|(at, line)| {
            if at == 0 {
                line
            } else {
                line.strip_prefix(MORE).unwrap_or(line)
            }
        })
        .collect();
    lines.join("\n")
}

/// The code with a mark before every line but the first.
pub(crate) fn with_marks(code: &str) -> String {
    code.replace('\n', &format!("\n{MORE}"))
}

#[cfg(test)]
mod prompt_tests {
    use super::*;

    #[test]
    fn marks_come_and_go() {
        let code = "def f():\n    return 1\n";
        assert_eq!(with_marks(code), "def f():\n...     return 1\n... ");
        assert_eq!(without_marks(&with_marks(code)), code);
    }

    #[test]
    fn a_pasted_line_stays_as_it_is() {
        assert_eq!(without_marks("x = [\n  1,\n... 2]"), "x = [\n  1,\n2]");
    }
}

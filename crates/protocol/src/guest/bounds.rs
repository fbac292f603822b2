//! Bounds of what the head sends: everything that comes from it may be hostile.

use super::from_head::{Done, HeadError};
use crate::json::memory::is_parsed_within;
use crate::text::{ceil_boundary, floor_boundary};
use crate::{
    CellError, CellValue, Completeness, Completions, CursorHelp, Frame, Inspection, Locals,
    MimeBundle, Variable, VariableChange, VariableChanges,
};

/// The most bytes of a name: a variable's, a class's, a file's.
pub(super) const NAME: usize = 512;
/// The most bytes of a short text: a summary, a local value, a source line.
pub(super) const SHORT: usize = 4 << 10;
/// The most bytes of a long text: a message, a docstring, a prompt, a traceback.
pub(super) const TEXT: usize = 256 << 10;
/// The most bytes of a value's repr: one stream's worth.
pub(super) const REPR: usize = 1 << 20;

const VARIABLES: usize = 10_000;
const MATCHES: usize = 1000;
const FRAMES: usize = 200;
const LOCALS: usize = 100;
const FORMS: usize = 32;
/// The most memory that a frame may take once it is parsed. The largest frame that is one long text takes half of it.
pub(super) const FRAME_MEMORY: usize = 64 << 20;

/// The text of a frame, unless it would take far more memory than its bytes once it is parsed.
pub(super) fn frame_text(body: &[u8]) -> Result<&str, HeadError> {
    let text =
        std::str::from_utf8(body).map_err(|error| HeadError::Malformed(error.to_string()))?;
    if is_parsed_within(body, FRAME_MEMORY) {
        Ok(text)
    } else {
        Err(HeadError::TooMuchMemory { max: FRAME_MEMORY })
    }
}

/// An id goes into maps, logs and answers: short, and plain to see.
pub(super) fn id(field: &'static str, text: String) -> Result<String, HeadError> {
    let plain = (1..=NAME).contains(&text.len()) && !text.chars().any(char::is_control);
    if plain {
        Ok(text)
    } else {
        Err(HeadError::BadId { field })
    }
}

/// Cuts a text to at most `max` bytes, between two characters, and gives the memory back.
pub(super) fn cut(text: &mut String, max: usize) {
    const MARK: &str = "…";
    if text.len() <= max {
        return;
    }
    text.truncate(floor_boundary(text, max - MARK.len()));
    text.push_str(MARK);
    text.shrink_to_fit();
}

/// Bounds a list of reasons, each of which is a line for a person.
pub(super) fn bound_reasons(reasons: &mut Vec<String>) {
    const MAX_REASONS: usize = 100;
    reasons.truncate(MAX_REASONS);
    for reason in reasons {
        cut(reason, SHORT);
    }
}

/// Keeps the beginning and the end: of a traceback the last line says the most.
fn cut_middle(text: &mut String, max: usize) {
    const MARK: &str = "\n…\n";
    if text.len() <= max {
        return;
    }
    let half = (max - MARK.len()) / 2;
    let head = floor_boundary(text, half);
    let tail = ceil_boundary(text, text.len() - half);
    *text = format!("{}{MARK}{}", &text[..head], &text[tail..]);
}

/// Brings a value from the guest down to a size that the host can hold.
pub(super) trait Bound {
    fn bound(&mut self);
}

impl<T: Bound> Bound for Option<T> {
    fn bound(&mut self) {
        if let Some(value) = self {
            value.bound();
        }
    }
}

impl<T: Bound> Bound for Vec<T> {
    fn bound(&mut self) {
        self.iter_mut().for_each(T::bound);
    }
}

impl Bound for Done {
    fn bound(&mut self) {
        self.value.bound();
        self.error.bound();
        self.variables.bound();
    }
}

impl Bound for CellValue {
    fn bound(&mut self) {
        cut(&mut self.repr, REPR);
        self.mime.bound();
    }
}

/// The contents stay as they are, for a cut picture is none; the frame's own size bounds them.
impl Bound for MimeBundle {
    fn bound(&mut self) {
        let mut forms = 0;
        self.retain(|mime, _| {
            forms += 1;
            forms <= FORMS && mime.len() <= NAME
        });
    }
}

impl Bound for CellError {
    fn bound(&mut self) {
        cut(&mut self.type_, NAME);
        cut(&mut self.value, TEXT);
        cut(&mut self.repr, TEXT);
        cut_middle(&mut self.traceback, TEXT);
        if self.frames.len() > FRAMES {
            // The innermost frames, where the exception was raised, are the last.
            self.frames.drain(..self.frames.len() - FRAMES);
        }
        self.frames.bound();
        if let Some(hint) = &mut self.hint {
            cut(hint, SHORT);
        }
        if let Some(package) = &mut self.package {
            cut(package, NAME);
        }
    }
}

impl Bound for Frame {
    fn bound(&mut self) {
        cut(&mut self.file, SHORT);
        cut(&mut self.function, NAME);
        cut(&mut self.source, SHORT);
        self.locals.bound();
    }
}

impl Bound for Locals {
    fn bound(&mut self) {
        self.0.truncate(LOCALS);
        for (name, value) in &mut self.0 {
            cut(name, NAME);
            cut(value, SHORT);
        }
    }
}

impl Bound for VariableChanges {
    fn bound(&mut self) {
        for list in [&mut self.added, &mut self.changed, &mut self.removed] {
            list.truncate(VARIABLES);
            list.bound();
        }
    }
}

impl Bound for VariableChange {
    fn bound(&mut self) {
        cut(&mut self.name, NAME);
        cut(&mut self.type_, NAME);
        cut(&mut self.summary, SHORT);
    }
}

impl Bound for Variable {
    fn bound(&mut self) {
        cut(&mut self.name, NAME);
        cut(&mut self.type_, NAME);
        cut(&mut self.summary, SHORT);
    }
}

impl Bound for Inspection {
    fn bound(&mut self) {
        cut(&mut self.type_, NAME);
        cut(&mut self.repr, REPR);
        cut(&mut self.doc, TEXT);
        self.mime.bound();
    }
}

impl Bound for Completions {
    fn bound(&mut self) {
        self.matches.truncate(MATCHES);
        for completion in &mut self.matches {
            cut(&mut completion.text, SHORT);
            cut(&mut completion.type_, NAME);
        }
    }
}

impl Bound for CursorHelp {
    fn bound(&mut self) {
        if self.found {
            self.mime.bound();
        } else {
            self.mime = MimeBundle::default();
        }
    }
}

impl Bound for Completeness {
    /// An indent is white space, whatever the guest says.
    fn bound(&mut self) {
        self.indent.retain(|it| it == ' ' || it == '\t');
        self.indent.truncate(NAME);
    }
}

/// The variables that `vars` may list.
pub(super) fn bound_variables(variables: &mut Vec<Variable>) {
    variables.truncate(VARIABLES);
    variables.bound();
}

//! The head's answers to operations, and how they are checked.

use serde::Deserialize;

use super::bounds::{self, Bound as _};
use super::from_head::{HeadError, read};
use super::to_head::NamedLosses;
use crate::result::mime::add_plain_text;
use crate::{Completeness, Completions, Computed, CursorHelp, Inspection, Variable};

/// The answer to an operation. Which shape it must have, only the asker knows: so it says by the
/// method that it takes the answer with. Until then the answer is the text that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The number of the operation that is answered.
    pub seq: u64,
    text: Box<str>,
}

/// A standby, as the head that was copied describes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Armed {
    /// The process id of the standby inside the session.
    pub pid: u32,
    /// Bytes that the head held of its own.
    #[serde(default)]
    pub resident: u64,
    /// Pages that the head touched in its life.
    #[serde(default)]
    pub faults: u64,
    /// The child processes that the head had then, by name. They end when the standby is woken.
    #[serde(default)]
    pub children: Vec<String>,
    /// Bytes of shared memory that are not noted, and so stay as they are when the standby is woken.
    #[serde(default)]
    pub left_out: u64,
}

impl Armed {
    /// The head cannot tell how much shared memory it has, because it may not read `/proc`.
    pub const LEFT_OUT_UNKNOWN: u64 = 9_999_999_999;
}

/// What a head that was woken says of its open files, its sockets and its processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Settled {
    /// What could not be put right, each with its reason.
    #[serde(default)]
    pub lost: Vec<String>,
    /// What the copy of itself that it left behind is told of this when it is woken.
    #[serde(default)]
    pub named: NamedLosses,
}

/// The most child processes that a head can name.
const MAX_CHILDREN: usize = 64;

impl Reply {
    pub(super) fn new(seq: u64, text: &str) -> Self {
        Self {
            seq,
            text: text.into(),
        }
    }

    /// For `seed`, `tools` and `reset`: it is done, or why it is not.
    pub fn done(self) -> Result<(), HeadError> {
        self.accepted()
    }

    /// For `vars`.
    pub fn variables(self) -> Result<Vec<Variable>, HeadError> {
        #[derive(Deserialize)]
        struct Listed {
            vars: Vec<Variable>,
        }
        self.accepted()?;
        let Listed { mut vars } = read(&self.text)?;
        bounds::bound_variables(&mut vars);
        Ok(vars)
    }

    /// For `inspect`.
    pub fn inspection(self) -> Result<Inspection, HeadError> {
        self.accepted()?;
        let mut inspection: Inspection = read(&self.text)?;
        inspection.bound();
        add_plain_text(&mut inspection.mime, &inspection.repr);
        Ok(inspection)
    }

    /// For `complete`. A match whose place lies outside the source text that was sent is dropped: `code_points` is its length.
    pub fn completions(self, code_points: u64) -> Result<Completions, HeadError> {
        self.accepted()?;
        let mut completions: Completions = read(&self.text)?;
        completions
            .matches
            .retain(|it| it.start <= it.end && it.end <= code_points);
        completions.bound();
        Ok(completions)
    }

    /// For `inspect_at`.
    pub fn cursor_help(self) -> Result<CursorHelp, HeadError> {
        self.accepted()?;
        let mut help: CursorHelp = read(&self.text)?;
        help.bound();
        Ok(help)
    }

    /// For `is_complete`.
    pub fn completeness(self) -> Result<Completeness, HeadError> {
        self.accepted()?;
        let mut completeness: Completeness = read(&self.text)?;
        completeness.bound();
        Ok(completeness)
    }

    /// For `compute`, whose error is an answer like any other.
    pub fn computed(self) -> Result<Computed, HeadError> {
        match read(&self.text)? {
            Computed {
                result: Some(mut text),
                error: None,
            } => {
                bounds::cut(&mut text, bounds::REPR);
                Ok(Computed::result(text))
            }
            Computed {
                result: None,
                error: Some(mut message),
            } => {
                bounds::cut(&mut message, bounds::TEXT);
                Ok(Computed::error(message))
            }
            _ => Err(HeadError::Malformed(
                "`compute` needs either `result` or `error`".to_owned(),
            )),
        }
    }

    /// For `arm`: the process that stands by, or why none can.
    pub fn armed(self) -> Result<Result<Armed, String>, HeadError> {
        self.accepted()?;
        if let Some(reason) = self.unavailable()? {
            return Ok(Err(reason));
        }
        let mut armed: Armed = read(&self.text)?;
        armed.children.truncate(MAX_CHILDREN);
        for name in &mut armed.children {
            bounds::cut(name, bounds::NAME);
        }
        Ok(Ok(armed))
    }

    /// For `settle`: what could not be put right.
    pub fn settled(self) -> Result<Settled, HeadError> {
        const MAX_NAMED: usize = 1024;
        self.accepted()?;
        let mut settled: Settled = read(&self.text)?;
        bounds::bound_reasons(&mut settled.lost);
        let is_too_long = |name: &String| name.len() > bounds::NAME;
        if settled.named.len() > MAX_NAMED || settled.named.keys().any(is_too_long) {
            // Then all of it is told again.
            settled.named.clear();
        }
        Ok(settled)
    }

    /// For `repeat`: how many cells did as they did before.
    pub fn repeated(self) -> Result<usize, HeadError> {
        #[derive(Deserialize)]
        struct Repeated {
            repeated: usize,
        }
        self.accepted()?;
        read(&self.text).map(|Repeated { repeated }| repeated)
    }

    /// For `fork`: it is made, or why it cannot be.
    pub fn forked(self) -> Result<Result<(), String>, HeadError> {
        self.accepted()?;
        Ok(self.unavailable()?.map_or(Ok(()), Err))
    }

    /// An error if the guest refused the operation.
    fn accepted(&self) -> Result<(), HeadError> {
        #[derive(Deserialize)]
        struct ErrorField {
            error: Option<String>,
        }
        match read(&self.text)? {
            ErrorField { error: None } => Ok(()),
            ErrorField {
                error: Some(mut message),
            } => {
                bounds::cut(&mut message, bounds::TEXT);
                Err(HeadError::Refused(message))
            }
        }
    }

    /// Why the guest cannot do the operation in its present state.
    fn unavailable(&self) -> Result<Option<String>, HeadError> {
        #[derive(Deserialize)]
        struct Reason {
            unavailable: Option<String>,
        }
        let Reason { mut unavailable } = read(&self.text)?;
        if let Some(reason) = &mut unavailable {
            bounds::cut(reason, bounds::SHORT);
        }
        Ok(unavailable)
    }
}

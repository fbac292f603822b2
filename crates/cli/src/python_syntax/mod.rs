//! As much of Python's syntax as a prompt needs: colours, and whether an input is finished.
//!
//! A hand-written scanner of a few hundred lines: a real parser would reject exactly the half-typed code that this is for, and
//! a highlighting library costs more to build than the rest of the command line.

mod scanner;
mod statements;

pub(crate) use scanner::{KEYWORDS, TokenKind, builtins, scan};
pub(crate) use statements::{Blocks, indent_after, is_complete};

//! The Python that sessions run on.

use std::path::PathBuf;

/// An interpreter, with the directories it needs to see.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Python {
    /// What is executed: an interpreter, or the `bin/python` of a virtual environment.
    pub executable: PathBuf,
    /// Shown read-only in every session: the interpreter's own directory, the environment's, and where links from there lead.
    pub prefixes: Vec<PathBuf>,
    /// Whether installed packages are found at all; without, it is the standard library alone.
    pub packages: bool,
    /// A directory with matplotlib's list of fonts, which takes seconds to make.
    pub font_cache: Option<PathBuf>,
}

/// What the zygote imports before the first session, so that it is free in every one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Preload {
    /// Nothing: the quickest start, for a single snippet.
    None,
    /// The standard library's common modules.
    #[default]
    Standard,
    /// These, and numpy, pandas and matplotlib where they are installed.
    Full,
}

impl Preload {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Preload::None => "none",
            Preload::Standard => "standard",
            Preload::Full => "full",
        }
    }
}

//! The text that a model reads after a cell.

mod budget;
mod parts;
mod signals;
mod words;

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use std::time::Duration;

use crate::CellResult;
use crate::json::invalid::{Invalid, shown_text};

pub use signals::signal_name;

/// How a result is put into words.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ForModel {
    /// The most characters (Unicode scalar values) that the text may have.
    pub budget: usize,
    /// The language.
    pub locale: Locale,
    /// The time that the cell had. The result does not hold it, and the text about a time-out names it.
    pub time_limit: Option<Duration>,
}

impl Default for ForModel {
    fn default() -> Self {
        Self {
            budget: 20_000,
            locale: Locale::En,
            time_limit: None,
        }
    }
}

/// A language that we speak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Locale {
    /// English.
    #[default]
    En,
    /// Chinese.
    Zh,
}

impl FromStr for Locale {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text {
            "en" => Ok(Self::En),
            "zh" => Ok(Self::Zh),
            _ => Err(Invalid::value("locale", "en or zh", shown_text(text))),
        }
    }
}

impl CellResult {
    /// The result as the text that a model reads, never longer than the budget.
    ///
    /// `code` is the cell's source; a failure shows it with line numbers. What is too long loses its middle, the output first; the line
    /// that names the exception stays. Nothing in the text depends on the time or the machine, so that recordings of a run match elsewhere.
    pub fn for_model(&self, code: &str, options: &ForModel) -> String {
        budget::fit(parts::parts(self, code, options), options.budget)
    }
}

//! Variables of a session, as `vars` and `inspect` describe them.

use serde::{Deserialize, Serialize};

use crate::MimeBundle;

/// A variable of a session, as `vars` lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// The name of the variable.
    pub name: String,
    /// The class of its value.
    #[serde(rename = "type")]
    pub type_: String,
    /// The value in a few words.
    pub summary: String,
    /// How much memory it takes, as far as Python can tell.
    #[serde(default)]
    pub bytes: u64,
}

/// A closer look at one variable.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Inspection {
    /// The class of its value.
    #[serde(rename = "type")]
    pub type_: String,
    /// `repr(value)`, shortened.
    pub repr: String,
    /// The docstring, empty when there is none.
    #[serde(default)]
    pub doc: String,
    /// The other forms of the value.
    #[serde(default)]
    pub mime: MimeBundle,
}

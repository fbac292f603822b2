//! The variables and files that a cell changed.

use serde::{Deserialize, Serialize};

/// The variables that a cell added, changed and removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariableChanges {
    /// Names that were not bound before.
    pub added: Vec<VariableChange>,
    /// Names that are bound to something else, or whose value was changed in place as far as can be told.
    pub changed: Vec<VariableChange>,
    /// Names that are gone, as they were before.
    pub removed: Vec<VariableChange>,
}

impl VariableChanges {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

/// One variable that changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariableChange {
    /// The name of the variable.
    pub name: String,
    /// The class of its value.
    #[serde(rename = "type")]
    pub type_: String,
    /// The value in a few words: the shape of an array, the length of a list, a short repr.
    pub summary: String,
}

/// The files of the workspace that a cell added, changed and removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChanges {
    /// Files that were not there before.
    pub created: Vec<FileChange>,
    /// Files with other contents.
    pub changed: Vec<FileChange>,
    /// Files that are gone; `bytes` is the size they had.
    pub deleted: Vec<FileChange>,
}

impl FileChanges {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.created.is_empty() && self.changed.is_empty() && self.deleted.is_empty()
    }
}

/// One file that changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Relative to the workspace.
    pub path: String,
    /// The size of the file.
    pub bytes: u64,
    /// The MIME type, guessed from the name by [`mime_of`](crate::mime_of).
    pub mime: String,
}

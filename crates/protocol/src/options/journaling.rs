//! The option `journal`: whether a session is recorded, and where.

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::json::fields::Field;
use crate::json::invalid::Invalid;

/// Whether a session writes down what happens in it, so that it can be made again. In JSON: `true`, `false`, a directory, or null.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Journaling {
    /// As the host does it for all its sessions. A host that was told nothing keeps none.
    #[default]
    HostsChoice,
    /// No.
    Off,
    /// In the directory for journals.
    On,
    /// In this directory.
    In(PathBuf),
}

impl Journaling {
    pub(crate) fn is_hosts_choice(&self) -> bool {
        *self == Self::HostsChoice
    }
}

impl From<bool> for Journaling {
    fn from(on: bool) -> Self {
        if on { Self::On } else { Self::Off }
    }
}

impl From<PathBuf> for Journaling {
    fn from(directory: PathBuf) -> Self {
        Self::In(directory)
    }
}

impl From<&Path> for Journaling {
    fn from(directory: &Path) -> Self {
        Self::In(directory.to_owned())
    }
}

impl Serialize for Journaling {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::HostsChoice => serializer.serialize_none(),
            Self::Off => serializer.serialize_bool(false),
            Self::On => serializer.serialize_bool(true),
            Self::In(directory) => directory.serialize(serializer),
        }
    }
}

impl Field for Journaling {
    const EXPECTED: &'static str = "true, false or a directory";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        match value {
            Value::Bool(on) => Ok(on.into()),
            Value::String(directory) if !directory.is_empty() => Ok(Self::In(directory.into())),
            other => Err(Self::refuse(name, &other)),
        }
    }
}

//! The exception that ended a cell, with its traceback.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{IntoDeserializer as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The exception that ended a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellError {
    /// The class, such as `ZeroDivisionError`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `str(exception)`.
    pub value: String,
    /// `repr(exception)`.
    pub repr: String,
    /// As Python prints it, only with the user's own frames. The last line is always `Type: message`.
    pub traceback: String,
    /// The frames of the traceback, outermost first.
    #[serde(default)]
    pub frames: Vec<Frame>,
    /// A hint what to do about the error, where there is one: that the session has no network, for example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What the code ran into, for programs that know what helps against it. An obstacle that a later version names is read as none.
    #[serde(
        default,
        deserialize_with = "known_obstacle",
        skip_serializing_if = "Option::is_none"
    )]
    pub obstacle: Option<Obstacle>,
    /// The package that has a missing module, by its name in an index: `scikit-learn` for `sklearn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
}

/// A limit or a wall of the session that code ran into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Obstacle {
    /// The memory limit.
    Memory,
    /// The disk limit.
    Disk,
    /// The limit of processes and threads.
    Processes,
    /// The limit of open files.
    OpenFiles,
    /// The network: the rules of the session do not name the host.
    Network,
    /// The network: the session has none.
    NoNetwork,
    /// A file that is not in the session, where files of the host are not visible.
    File,
    /// A package that the session does not have, and that code cannot ask for.
    Package,
    /// A package that the session does not have, and that its tool `install_packages` can bring.
    InstallablePackage,
}

/// Reads an obstacle that this version knows.
fn known_obstacle<'de, D: Deserializer<'de>>(read: D) -> Result<Option<Obstacle>, D::Error> {
    let name = Option::<String>::deserialize(read)?;
    Ok(name.and_then(|name| {
        let name: StrDeserializer<'_, serde::de::value::Error> = name.as_str().into_deserializer();
        Obstacle::deserialize(name).ok()
    }))
}

/// One step of a traceback.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// `<cell 3>`, or the path of a file.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// The function, or `<module>`.
    pub function: String,
    /// The source line.
    pub source: String,
    /// The local variables with a short text of each, in the order in which they were bound.
    #[serde(default)]
    pub locals: Locals,
}

/// Names and short values: a JSON object that keeps its order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Locals(pub Vec<(String, String)>);

impl Serialize for Locals {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Locals {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = Locals;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Locals, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Locals(pairs))
            }
        }

        deserializer.deserialize_map(Pairs)
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Locals {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self(
            pairs
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

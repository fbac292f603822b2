//! Rungs and walls: how strongly a session is isolated.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::json::fields::{Field, Fields};
use crate::json::invalid::{Invalid, shown_text};

/// How strongly a session is walled in. Ordered: `None < Landlock < Full`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rung {
    /// No walls at all. Only ever by name.
    None,
    /// Landlock, seccomp and limits, without namespaces.
    Landlock,
    /// Every wall.
    Full,
}

impl Rung {
    /// The word that stands in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Landlock => "landlock",
            Self::Full => "full",
        }
    }
}

impl Rung {
    /// A gap in the protection of this rung that a person may not expect, in one sentence. `None` where there is none.
    pub fn caveat(self) -> Option<&'static str> {
        match self {
            Self::Landlock => Some(
                "this rung protects contents, not names: code can find out which files and processes the machine has",
            ),
            Self::None | Self::Full => None,
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

impl FromStr for Rung {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        [Self::None, Self::Landlock, Self::Full]
            .into_iter()
            .find(|rung| rung.name() == text)
            .ok_or_else(|| Invalid::value("rung", "full, landlock or none", shown_text(text)))
    }
}

/// One wall, by what it stands in front of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(
    missing_docs,
    reason = "`stops` says it, in words that `doctor` prints"
)]
pub enum Wall {
    Files,
    Processes,
    Network,
    Ipc,
    Hostname,
    Landlock,
    Seccomp,
    Privileges,
    Signals,
    Environment,
    Memory,
    ProcessCount,
    Disk,
    Output,
}

impl Wall {
    /// Every wall, in the order in which `doctor` lists them.
    pub const ALL: [Self; 14] = [
        Self::Files,
        Self::Processes,
        Self::Network,
        Self::Ipc,
        Self::Hostname,
        Self::Landlock,
        Self::Seccomp,
        Self::Privileges,
        Self::Signals,
        Self::Environment,
        Self::Memory,
        Self::ProcessCount,
        Self::Disk,
        Self::Output,
    ];

    /// The word that stands in JSON and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Processes => "processes",
            Self::Network => "network",
            Self::Ipc => "ipc",
            Self::Hostname => "hostname",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Privileges => "privileges",
            Self::Signals => "signals",
            Self::Environment => "environment",
            Self::Memory => "memory",
            Self::ProcessCount => "process_count",
            Self::Disk => "disk",
            Self::Output => "output",
        }
    }

    /// The attack that would be possible without this wall, in one line.
    pub fn stops(self) -> &'static str {
        match self {
            Self::Files => {
                "reading or writing the host's files: a read-only view stands in their place"
            }
            Self::Processes => "seeing or touching the host's processes",
            Self::Network => "every network, the machine's own loopback included",
            Self::Ipc => "shared memory and message queues of the host",
            Self::Hostname => "learning or changing the host's name",
            Self::Landlock => {
                "file access beyond the view, also where namespaces are not to be had"
            }
            Self::Seccomp => {
                "dangerous system calls: mounts, tracing, BPF, keys, io_uring and more"
            }
            Self::Privileges => "root, capabilities, and gaining them through setuid programs",
            Self::Signals => "a cell that would kill its own checkpoint",
            Self::Environment => {
                "inherited environment variables and open files, and the secrets in them"
            }
            Self::Memory => "using more memory than the limit",
            Self::ProcessCount => "fork bombs: more processes and threads than the limit",
            Self::Disk => "filling the disk",
            Self::Output => "output that would fill the host's memory or the model's context",
        }
    }
}

impl fmt::Display for Wall {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

impl FromStr for Wall {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::ALL
            .into_iter()
            .find(|wall| wall.name() == text)
            .ok_or_else(|| {
                let names: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
                Invalid::value(
                    "without",
                    format!("walls out of {}", names.join(", ")),
                    shown_text(text),
                )
            })
    }
}

/// The walls that a session is to have.
///
/// In JSON `"full"`, `"landlock"`, `"none"`, `"best"`, or `{"rung": "full", "without": ["seccomp"]}`. Its text is what
/// results carry: `full`, or `full without seccomp, network`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "Value")]
pub struct Isolation {
    /// The rung that must be reached. Absent: the best of this machine, but never below Landlock.
    pub rung: Option<Rung>,
    /// Walls to leave out, each by name. For finding out which wall is in the way, and for tests.
    pub without: BTreeSet<Wall>,
}

impl Isolation {
    /// Exactly this rung, with all its walls.
    pub fn on(rung: Rung) -> Self {
        Self {
            rung: Some(rung),
            without: BTreeSet::new(),
        }
    }

    /// Leaves one wall out.
    #[must_use]
    pub fn without(mut self, wall: Wall) -> Self {
        self.without.insert(wall);
        self
    }

    /// The lowest rung on which the session may start. No walls at all only when asked for by name.
    pub fn lowest(&self) -> Rung {
        self.rung.unwrap_or(Rung::Landlock)
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.rung.map_or(BEST, Rung::name))?;
        for (at, wall) in self.without.iter().enumerate() {
            let before = if at == 0 { " without " } else { ", " };
            write!(out, "{before}{wall}")?;
        }
        Ok(())
    }
}

impl FromStr for Isolation {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        if text == BEST {
            Ok(Self::default())
        } else {
            Rung::from_str(text).map(Self::on)
        }
    }
}

impl Serialize for Isolation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Whole<'a> {
            rung: Option<Rung>,
            without: &'a BTreeSet<Wall>,
        }

        if self.without.is_empty() {
            return serializer.collect_str(self);
        }
        Whole {
            rung: self.rung,
            without: &self.without,
        }
        .serialize(serializer)
    }
}

impl TryFrom<Value> for Isolation {
    type Error = Invalid;

    fn try_from(value: Value) -> Result<Self, Invalid> {
        Self::read("isolation", value)
    }
}

impl Field for Isolation {
    const EXPECTED: &'static str = "full, landlock, none, or {\"rung\": …, \"without\": […]}";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        match value {
            Value::String(text) => Self::from_str(&text)
                .map_err(|_| Invalid::value(name, Self::EXPECTED, shown_text(&text))),
            Value::Object(map) => from_object(map).map_err(|error| error.inside(name)),
            other => Err(Self::refuse(name, &other)),
        }
    }
}

const BEST: &str = "best";

fn from_object(map: Map<String, Value>) -> Result<Isolation, Invalid> {
    let mut fields = Fields::new(map);
    let rung = fields.optional::<String>("rung")?;
    let without = fields
        .optional::<Vec<String>>("without")?
        .unwrap_or_default();
    fields.finish(&["rung", "without"])?;
    let base = rung.map_or_else(
        || Ok(Isolation::default()),
        |name| Isolation::from_str(&name),
    )?;
    let without = without
        .iter()
        .map(|name| Wall::from_str(name))
        .collect::<Result<_, _>>()?;
    Ok(Isolation { without, ..base })
}

//! The options of a session, and each part of them: limits, walls, network, journal, variables.

pub(crate) mod container;
pub(crate) mod credential;
pub(crate) mod imports;
pub(crate) mod isolation;
pub(crate) mod journaling;
pub(crate) mod limits;
pub(crate) mod network_rule;
pub(crate) mod replay;
pub(crate) mod seed;
pub(crate) mod workspace_place;

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json::fields::{Field, Fields};
use crate::json::invalid::{Invalid, shown_text};
use crate::options::imports::import_statement;
use crate::options::seed::validate_seed;
use crate::{
    Cell, ContainerOptions, CredentialRule, Isolation, Journaling, Limits, MAX_NETWORK_RULES,
    NetworkRule, Replay, Seed, WorkspacePlace,
};

/// How a session is to be. Everything has a default, and unknown fields are refused.
///
/// ```
/// use cellblock_protocol::{Limits, SessionOptions};
///
/// let options = SessionOptions {
///     imports: vec!["math".to_owned()],
///     limits: Limits { memory: 512 << 20, ..Limits::DEFAULT },
///     ..SessionOptions::named("analysis")
/// };
/// let json = r#"{"session": "analysis", "imports": ["math"], "limits": {"memory": "512MiB"}}"#;
/// assert_eq!(serde_json::from_str::<SessionOptions>(json).unwrap(), options);
///
/// let slip = serde_json::from_str::<SessionOptions>(r#"{"import": ["math"]}"#).unwrap_err();
/// assert!(slip.to_string().contains("import"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct SessionOptions {
    /// The id of the session; absent, the host makes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// A directory of the user's to work in; absent, a fresh one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<PathBuf>,
    /// Where code finds the workspace: `/workspace`, unless another path is chosen. It needs the rung `full` or a container.
    #[serde(skip_serializing_if = "WorkspacePlace::is_default")]
    pub workspace_at: WorkspacePlace,
    /// The dependency environment, by name; absent, the Python that the host found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// Present, it lives in a container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerOptions>,
    /// The language of cells: Python alone, or as in notebooks.
    #[serde(skip_serializing_if = "Shell::is_plain")]
    pub shell: Shell,
    /// How cells run.
    pub strategy: Strategy,
    /// Whether a cell that fails leaves nothing behind. A cell can say otherwise.
    pub atomic: bool,
    /// Whether a cell waits for the checkpoint before it.
    pub arming: Arming,
    /// The walls of the session.
    pub isolation: Isolation,
    /// The hosts that the session may reach: none, unless they are named here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<NetworkRule>,
    /// What happens to a request for a host that no rule names.
    #[serde(skip_serializing_if = "UnlistedHosts::is_default")]
    pub unlisted_hosts: UnlistedHosts,
    /// Headers that requests get outside, so that the session never holds the secrets in them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<CredentialRule>,
    /// The resources that the session may use.
    pub limits: Limits,
    /// Modules to bind beforehand: `np`, `math`, `numpy as np`, `from x import y`.
    pub imports: Vec<String>,
    /// Variables to bind beforehand.
    pub seed: Seed,
    /// How the global generators of random numbers begin (`random`, numpy, torch); absent, each session draws fresh numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random_seed: Option<u32>,
    /// Code that runs first, as cell 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// Whether the session keeps a journal, and where.
    #[serde(skip_serializing_if = "Journaling::is_hosts_choice")]
    pub journal: Journaling,
    /// Whether kept cells are run again after a crash that found only an older checkpoint.
    #[serde(skip_serializing_if = "Replay::is_default")]
    pub replay: Replay,
}

impl SessionOptions {
    const FIELDS: &'static [&'static str] = &[
        "session",
        "workspace",
        "workspace_at",
        "env",
        "container",
        "shell",
        "strategy",
        "atomic",
        "arming",
        "isolation",
        "network",
        "unlisted_hosts",
        "credentials",
        "limits",
        "imports",
        "seed",
        "random_seed",
        "setup",
        "journal",
        "replay",
    ];

    /// Options with an id, the rest by default.
    pub fn named(session: impl Into<String>) -> Self {
        Self {
            session: Some(session.into()),
            ..Self::default()
        }
    }

    /// Whether code of the session finds a way to the network, guarded by rules or by a person.
    pub fn has_network(&self) -> bool {
        !self.network.is_empty() || self.unlisted_hosts == UnlistedHosts::Ask
    }

    /// Refuses what cannot be, before anything starts.
    pub fn validate(&self) -> Result<(), Invalid> {
        if let Some(id) = &self.session {
            validate_session_id(id)?;
        }
        self.limits
            .validate()
            .map_err(|error| error.inside("limits"))?;
        if let Some(container) = &self.container {
            container
                .validate()
                .map_err(|error| error.inside("container"))?;
        }
        if self.network.len() > MAX_NETWORK_RULES {
            let expected = format!("at most {MAX_NETWORK_RULES} rules");
            return Err(Invalid::value(
                "network",
                expected,
                self.network.len().to_string(),
            ));
        }
        if self.credentials.len() > MAX_NETWORK_RULES {
            let expected = format!("at most {MAX_NETWORK_RULES} rules");
            let came = self.credentials.len().to_string();
            return Err(Invalid::value("credentials", expected, came));
        }
        if let (Some(rule), true) = (self.credentials.first(), self.network.is_empty()) {
            let expected =
                "a rule in `network` that allows the host, for without one nothing is reached";
            return Err(Invalid::value("credentials", expected, rule.to_string()));
        }
        if self.atomic && self.strategy == Strategy::Direct {
            let expected = "`false` with the strategy `direct`, which makes no checkpoints";
            return Err(Invalid::value("atomic", expected, "true"));
        }
        for entry in &self.imports {
            import_statement(entry)?;
        }
        validate_seed(&self.seed)?;
        if let Some(code) = &self.setup {
            Cell::new(code.as_str()).validate().map_err(|_| {
                let expected = format!("at most {} bytes", crate::MAX_CODE_BYTES);
                Invalid::value("setup", expected, format!("{} bytes", code.len()))
            })?;
        }
        Ok(())
    }
}

impl TryFrom<Map<String, Value>> for SessionOptions {
    type Error = Invalid;

    fn try_from(map: Map<String, Value>) -> Result<Self, Invalid> {
        let mut fields = Fields::new(map);
        let options = Self {
            session: fields.optional("session")?,
            workspace: fields.optional::<String>("workspace")?.map(PathBuf::from),
            workspace_at: fields.optional("workspace_at")?.unwrap_or_default(),
            env: fields.optional("env")?,
            container: fields.optional("container")?,
            strategy: fields.optional("strategy")?.unwrap_or_default(),
            atomic: fields.optional("atomic")?.unwrap_or_default(),
            arming: fields.optional("arming")?.unwrap_or_default(),
            isolation: fields.optional("isolation")?.unwrap_or_default(),
            network: fields.optional("network")?.unwrap_or_default(),
            unlisted_hosts: fields.optional("unlisted_hosts")?.unwrap_or_default(),
            credentials: fields.optional("credentials")?.unwrap_or_default(),
            limits: fields.optional("limits")?.unwrap_or_default(),
            imports: fields.optional("imports")?.unwrap_or_default(),
            seed: fields.optional("seed")?.unwrap_or_default(),
            random_seed: fields.optional("random_seed")?,
            setup: fields.optional("setup")?,
            journal: fields.optional("journal")?.unwrap_or_default(),
            replay: fields.optional("replay")?.unwrap_or_default(),
            shell: fields.optional("shell")?.unwrap_or_default(),
        };
        fields.finish(Self::FIELDS)?;
        options.validate()?;
        Ok(options)
    }
}

/// A session's id becomes a directory's name and a word in logs: 1 to 64 letters, digits, `.`, `_`, `-`, and no
/// dot in front.
pub fn validate_session_id(id: &str) -> Result<(), Invalid> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if (1..=64).contains(&id.len()) && !id.starts_with('.') && id.chars().all(good) {
        return Ok(());
    }
    let expected = "1 to 64 of the characters A-Z a-z 0-9 . _ -, not starting with a dot";
    Err(Invalid::value("session", expected, shown_text(id)))
}

/// What happens to a request of code for a host that no rule names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnlistedHosts {
    /// The request is refused.
    #[default]
    Refuse,
    /// The request waits while the approver of the session is asked; it is refused where the session has none.
    Ask,
}

impl UnlistedHosts {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Field for UnlistedHosts {
    const EXPECTED: &'static str = "refuse or ask";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        match value.as_str() {
            Some("refuse") => Ok(Self::Refuse),
            Some("ask") => Ok(Self::Ask),
            _ => Err(Self::refuse(name, &value)),
        }
    }
}

/// How cells run; the contract is the same for all three.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// On the main thread of the interpreter, with a standby process as the checkpoint.
    #[default]
    Process,
    /// On a worker thread, so that the session can be looked at meanwhile; the standby is there too.
    Thread,
    /// With no standby: the least memory, and no recovery after a crash.
    Direct,
}

impl Strategy {
    /// The word that stands in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Thread => "thread",
            Self::Direct => "direct",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

impl Field for Strategy {
    const EXPECTED: &'static str = "process, thread or direct";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        match value.as_str() {
            Some("process") => Ok(Self::Process),
            Some("thread") => Ok(Self::Thread),
            Some("direct") => Ok(Self::Direct),
            _ => Err(Self::refuse(name, &value)),
        }
    }
}

/// The language of cells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shell {
    /// Python alone.
    #[default]
    Plain,
    /// As in notebooks: magics, `!command`, `In` and `Out`. Python alone where IPython is not installed.
    Ipython,
    /// As `ipython`; values also have the forms that clients of the E2B API read: columns of tables, charts, JSON.
    E2b,
}

impl Shell {
    /// The word that stands in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Ipython => "ipython",
            Self::E2b => "e2b",
        }
    }

    fn is_plain(&self) -> bool {
        *self == Self::Plain
    }
}

impl Field for Shell {
    const EXPECTED: &'static str = "plain, ipython or e2b";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        match value.as_str() {
            Some("plain") => Ok(Self::Plain),
            Some("ipython") => Ok(Self::Ipython),
            Some("e2b") => Ok(Self::E2b),
            _ => Err(Self::refuse(name, &value)),
        }
    }
}

/// Whether a cell waits for the checkpoint before it, while that is still being made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arming {
    /// The cell waits: it starts with its checkpoint, or once that is known to be unavailable.
    #[default]
    Strict,
    /// The cell runs at once, and its result says how far the checkpoint is behind.
    Lazy,
}

impl Field for Arming {
    const EXPECTED: &'static str = "strict or lazy";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        match value.as_str() {
            Some("strict") => Ok(Self::Strict),
            Some("lazy") => Ok(Self::Lazy),
            _ => Err(Self::refuse(name, &value)),
        }
    }
}

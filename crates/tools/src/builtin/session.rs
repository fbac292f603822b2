//! Tools that work on the session: `compute`, `undo`, `checkpoints` and `install_packages`.

use crate::names::COMPUTE_ALIAS;
use crate::{Context, Effects, Json, Output, Part, Tool, ToolError, Uses};
use cellblock_protocol::{CheckpointList, FileChange, Undone, VariableChange};
use cellblock_session::Session;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The time limit of an install, with compilers and slow lines.
const INSTALL_TIME_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Evaluates one Python expression in a throw-away copy of the session.
#[derive(Debug)]
pub struct ComputeTool;

/// Evaluates one Python expression exactly, with the variables of the session, and changes nothing. sqrt, Decimal, date, Counter and
/// their like need no import. Statements, imports and print are refused.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Compute {
    /// One expression.
    code: String,
    /// In a few words.
    description: String,
}

/// Exactly one of the two is not null.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Computed {
    /// The value as text.
    result: Option<String>,
    /// Why there is none.
    error: Option<String>,
}

impl Tool for ComputeTool {
    type Parameters = Compute;
    type Output = Json<Computed>;

    fn aliases(&self) -> Vec<String> {
        vec![COMPUTE_ALIAS.to_owned()]
    }

    fn uses(&self) -> Uses {
        Uses::Interpreter
    }

    fn effects(&self) -> Effects {
        Effects::Code { argument: "code" }
    }

    async fn call(&self, compute: Compute, context: &Context) -> Result<Json<Computed>, ToolError> {
        let session = context.runner().session().await?;
        let computed = session.compute(&compute.code, &compute.description).await?;
        Ok(Json(Computed {
            result: computed.result,
            error: computed.error,
        }))
    }
}

/// Lists the checkpoints of the session.
#[derive(Debug)]
pub struct CheckpointsTool;

/// Lists the checkpoints of the session, newest first: the cells after whose state the tool undo can go back to.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Checkpoints {}

impl Tool for CheckpointsTool {
    type Parameters = Checkpoints;
    type Output = Output;

    fn uses(&self) -> Uses {
        Uses::Interpreter
    }

    async fn call(&self, _: Checkpoints, context: &Context) -> Result<Output, ToolError> {
        let session = context.runner().session().await?;
        let CheckpointList { state, entries } = session.checkpoints().await?;
        let cells: Vec<String> = entries
            .iter()
            .map(|entry| match entry.cell {
                0 => "the beginning".to_owned(),
                cell => format!("after cell {cell}"),
            })
            .collect();
        let text = match (cells.is_empty(), &state.reason) {
            (false, _) => format!("Checkpoints, newest first: {}", cells.join(", ")),
            (true, Some(reason)) => format!("There is no checkpoint: {reason}"),
            (true, None) => "There is no checkpoint.".to_owned(),
        };
        // Times and sizes differ from machine to machine, so the text for the model has none.
        Ok(Output {
            structured: Some(json!({"state": state, "checkpoints": entries})),
            parts: vec![Part::Text(text)],
        })
    }
}

/// Takes back the last cells.
#[derive(Debug)]
pub struct UndoTool;

/// Takes back the last calls of execute_python_code, with their variables and files, when code has spoilt the state. What tools did
/// outside is not taken back.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Undo {
    /// How many.
    #[serde(default = "one_cell")]
    #[schemars(range(min = 1, max = 50))]
    count: u32,
}

fn one_cell() -> u32 {
    1
}

impl Tool for UndoTool {
    type Parameters = Undo;
    type Output = Output;

    fn uses(&self) -> Uses {
        Uses::Interpreter
    }

    async fn call(&self, undo: Undo, context: &Context) -> Result<Output, ToolError> {
        let session = context.runner().session().await?;
        let undone = session.undo(undo.count as usize).await?;
        let text = describe_undone(&undone);
        Ok(Output {
            structured: Some(serde_json::to_value(undone)?),
            parts: vec![Part::Text(text)],
        })
    }
}

fn describe_undone(undone: &Undone) -> String {
    let mut lines = vec![match undone.cell {
        0 => "The session is as it was at its beginning.".to_owned(),
        cell => format!("The session is as it was after cell {cell}."),
    }];
    let names = |list: &[VariableChange]| {
        let names: Vec<&str> = list.iter().map(|change| change.name.as_str()).collect();
        names.join(", ")
    };
    let paths = |list: &[FileChange]| {
        let paths: Vec<&str> = list.iter().map(|change| change.path.as_str()).collect();
        paths.join(", ")
    };
    let changes = [
        ("Variables that are back", names(&undone.variables.added)),
        (
            "Variables with their earlier value",
            names(&undone.variables.changed),
        ),
        ("Variables that are gone", names(&undone.variables.removed)),
        ("Files that are back", paths(&undone.files.created)),
        (
            "Files with their earlier contents",
            paths(&undone.files.changed),
        ),
        ("Files that are gone", paths(&undone.files.deleted)),
        ("Could not be put back", undone.not_restored.join(", ")),
    ];
    for (what, which) in changes {
        if !which.is_empty() {
            lines.push(format!("{what}: {which}"));
        }
    }
    lines.join("\n")
}

/// A running install. Its text tells the model which packages were installed.
pub type InstallFuture<'a> = Pin<Box<dyn Future<Output = Result<String, ToolError>> + Send + 'a>>;

/// Installs packages for running sessions.
pub trait PackageInstaller: Send + Sync + 'static {
    /// Makes packages importable in the session. Its variables stay.
    fn install<'a>(&'a self, session: &'a Session, packages: Vec<String>) -> InstallFuture<'a>;
}

/// Installs packages for the session.
#[derive(Clone)]
pub struct InstallPackagesTool {
    installer: Arc<dyn PackageInstaller>,
}

/// Installs Python packages from the package index when an import fails: they can be imported at once, and all variables stay.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct InstallPackages {
    /// Names, with versions if need be: "polars>=1.0".
    #[schemars(length(min = 1, max = 100))]
    packages: Vec<String>,
}

impl InstallPackagesTool {
    /// The tool with this installer.
    pub fn new(installer: impl PackageInstaller) -> InstallPackagesTool {
        InstallPackagesTool {
            installer: Arc::new(installer),
        }
    }
}

impl fmt::Debug for InstallPackagesTool {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("InstallPackagesTool")
    }
}

impl Tool for InstallPackagesTool {
    type Parameters = InstallPackages;
    type Output = String;

    /// An install downloads from the network and stays on disk, so a person is asked.
    fn effects(&self) -> Effects {
        Effects::Outside
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(INSTALL_TIME_LIMIT)
    }

    async fn call(&self, wanted: InstallPackages, context: &Context) -> Result<String, ToolError> {
        let session = context.runner().session().await?;
        self.installer.install(&session, wanted.packages).await
    }
}

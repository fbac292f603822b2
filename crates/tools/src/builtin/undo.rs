//! Taking cells back.

use crate::{Context, Output, Part, Tool, ToolError, Uses};
use cellblock_protocol::{Undone, VariableChange};
use schemars::JsonSchema;
use serde::Deserialize;

/// Takes back the last cells.
#[derive(Debug)]
pub struct UndoTool;

/// Takes back the last calls of execute_python_code that were kept: variables and files of the workspace are as before them. Use it when
/// code has spoilt the state. What tools did outside of the session is not taken back.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Undo {
    /// How many cells to take back.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 50))]
    count: u32,
}

fn one() -> u32 {
    1
}

impl Tool for UndoTool {
    type Parameters = Undo;
    type Output = Output;

    fn uses(&self) -> Uses {
        Uses::Interpreter
    }

    async fn call(&self, undo: Undo, context: &Context) -> Result<Output, ToolError> {
        let session = context.workbench().session().await?;
        let undone = session.undo(undo.count as usize).await?;
        let text = described(&undone);
        Ok(Output {
            structured: Some(serde_json::to_value(undone)?),
            parts: vec![Part::Text(text)],
        })
    }
}

fn described(undone: &Undone) -> String {
    let mut lines = vec![match undone.cell {
        0 => "The session is as it was at its beginning.".to_owned(),
        cell => format!("The session is as it was after cell {cell}."),
    }];
    let names = |list: &[VariableChange]| {
        let names: Vec<&str> = list.iter().map(|change| change.name.as_str()).collect();
        names.join(", ")
    };
    let paths = |list: &[cellblock_protocol::FileChange]| {
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

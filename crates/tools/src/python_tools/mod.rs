//! Tools written in Python: a folder of files with typed, documented functions.
//!
//! They run in a session of their own, behind its own walls and with its own secrets, never in the one of the model's code.

mod folder;
mod room;

use crate::{
    AnyTool, CallLimits, Context, Definition, Effects, Invocation, Opening, Output, ToolError,
};
use folder::Folder;
use room::{Room, Shown};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Why tools written in Python cannot be used. Found when they are loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PythonToolsError {
    /// The folder cannot be read.
    #[error("the tools in {} cannot be read: {problem}", path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// A file cannot be used; names the file and the line or function.
    #[error("the tools in {} cannot be used: {problem}", path.display())]
    Code {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

/// Where tools written in Python come from.
pub struct PythonTools {
    folder: PathBuf,
    secrets: Map<String, Value>,
}

impl PythonTools {
    /// The tools in this folder.
    pub fn new(folder: impl Into<PathBuf>) -> PythonTools {
        PythonTools {
            folder: folder.into(),
            secrets: Map::new(),
        }
    }

    /// A variable of the environment that these tools see, and nobody else.
    pub fn secret(mut self, name: impl Into<String>, value: impl Into<String>) -> PythonTools {
        self.secrets
            .insert(name.into(), Value::String(value.into()));
        self
    }

    /// Loads them in a session that `open` makes, and again in another should that one end.
    pub async fn load(
        self,
        open: impl Fn() -> Opening + Send + Sync + 'static,
    ) -> Result<Vec<Arc<dyn AnyTool>>, PythonToolsError> {
        let folder = Folder::read(&self.folder)?;
        let room = Arc::new(Room::new(folder, self.secrets, Box::new(open)));
        let shown = room
            .load()
            .await
            .map_err(|problem| PythonToolsError::Code {
                path: self.folder.clone(),
                problem,
            })?;
        let tools = shown
            .into_iter()
            .map(|shown| tool(shown, Arc::clone(&room)));
        Ok(tools.collect())
    }
}

fn tool(shown: Shown, room: Arc<Room>) -> Arc<dyn AnyTool> {
    let limit = shown
        .time_limit
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .unwrap_or(CallLimits::default().time);
    let effects = match shown.effects.as_deref() {
        Some("outside") => Effects::Outside,
        _ => Effects::None,
    };
    let definition = Definition {
        effects,
        // The cell stops first, and says so; this is for a session that cannot even be made.
        time_limit: Some(limit + Duration::from_secs(30)),
        ..Definition::new(shown.name, shown.description, shown.parameters)
    };
    Arc::new(PythonTool {
        definition,
        limit,
        room,
    })
}

/// A function in a file.
struct PythonTool {
    definition: Definition,
    limit: Duration,
    room: Arc<Room>,
}

impl AnyTool for PythonTool {
    fn definition(&self) -> Definition {
        self.definition.clone()
    }

    fn invoke(self: Arc<Self>, arguments: Map<String, Value>, _: Context) -> Invocation {
        Box::pin(async move {
            let called: Result<Output, ToolError> = self
                .room
                .call(&self.definition.name, arguments, self.limit)
                .await;
            called
        })
    }
}

/// Whether a path is a folder with tools in it, for messages before anything is started.
pub(crate) fn is_python(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "py")
}

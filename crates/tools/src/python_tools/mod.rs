//! Tools written in Python: a folder of files with typed, documented functions.
//!
//! They run in a session of their own, behind its own walls and with its own secrets, never in the session of
//! the model's code.

mod calls;
mod session;

use crate::{
    CallLimits, Context, DynamicTool, Effects, SessionFuture, ToolDefinition, ToolFuture, Uses,
};
use calls::ToolCalls;
use serde_json::{Map, Value};
use session::{LoadedFunction, ToolsSource};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The most bytes of a folder. Tools are code and small data.
const MAX_FOLDER_BYTES: u64 = 32 << 20;
/// The most files of a folder.
const MAX_FOLDER_FILES: usize = 1000;
/// How much longer the runner waits than the cell of a call. The cell times out first, and names the tool.
const RUNNER_GRACE: Duration = Duration::from_secs(30);

/// Why tools written in Python cannot be used. Found when they are loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PythonToolsError {
    /// The folder cannot be read.
    #[error("the tools in {} cannot be read: {problem}", path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// Why it cannot be read.
        problem: String,
    },
    /// A file cannot be used. The message names the file and the line or function.
    #[error("the tools in {} cannot be used: {problem}", path.display())]
    Code {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

/// A folder of tools written in Python, with their secrets.
///
/// ```no_run
/// # async fn example(
/// #     open: impl Fn() -> cellblock_tools::SessionFuture + Send + Sync + 'static,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// use cellblock_tools::{PythonTools, Registry};
///
/// let tools = PythonTools::new("my-tools").secret("API_KEY", "…").load(open).await?;
/// let registry = Registry::builder().built_in().extend(tools).build()?;
/// # Ok(())
/// # }
/// ```
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

    /// An environment variable that only these tools see.
    pub fn secret(mut self, name: impl Into<String>, value: impl Into<String>) -> PythonTools {
        self.secrets
            .insert(name.into(), Value::String(value.into()));
        self
    }

    /// Loads the tools in a session that `open` opens. If that session ends, they are loaded again in another.
    pub async fn load(
        self,
        open: impl Fn() -> SessionFuture + Send + Sync + 'static,
    ) -> Result<Vec<Arc<dyn DynamicTool>>, PythonToolsError> {
        let files = read_folder(&self.folder)?;
        let source = ToolsSource {
            files,
            secrets: self.secrets,
            open: Box::new(open),
        };
        let loaded = ToolCalls::load(source).await;
        let (calls, functions) = loaded.map_err(|problem| PythonToolsError::Code {
            path: self.folder.clone(),
            problem,
        })?;
        let calls = Arc::new(calls);
        let tools = functions
            .into_iter()
            .map(|function| new_tool(function, Arc::clone(&calls)));
        Ok(tools.collect())
    }
}

/// A file of the folder, with its path relative to the folder.
pub(crate) struct ToolFile {
    path: String,
    content: Vec<u8>,
}

/// Reads the files that are copied into the session: not those whose names begin with a dot.
fn read_folder(folder: &Path) -> Result<Vec<ToolFile>, PythonToolsError> {
    let refuse = |path: &Path, problem: String| PythonToolsError::Folder {
        path: path.to_owned(),
        problem,
    };
    let mut files = Vec::new();
    let mut bytes = 0;
    let mut pending = vec![PathBuf::new()];
    while let Some(relative) = pending.pop() {
        let directory = match relative.as_os_str().is_empty() {
            true => folder.to_owned(),
            false => folder.join(&relative),
        };
        let entries =
            fs::read_dir(&directory).map_err(|error| refuse(&directory, error.to_string()))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') || name == "__pycache__" {
                continue;
            }
            let relative = relative.join(&name);
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() {
                pending.push(relative);
                continue;
            }
            if !metadata.is_file() {
                continue;
            }
            bytes += metadata.len();
            if bytes > MAX_FOLDER_BYTES || files.len() >= MAX_FOLDER_FILES {
                let problem = format!(
                    "it holds more than {MAX_FOLDER_FILES} files or {} MiB",
                    MAX_FOLDER_BYTES >> 20
                );
                return Err(refuse(folder, problem));
            }
            let content =
                fs::read(entry.path()).map_err(|error| refuse(&entry.path(), error.to_string()))?;
            files.push(ToolFile {
                path: relative.to_string_lossy().into_owned(),
                content,
            });
        }
    }
    let is_python = |file: &ToolFile| Path::new(&file.path).extension().is_some_and(|e| e == "py");
    if !files.iter().any(is_python) {
        return Err(refuse(folder, "there is no .py file in it".to_owned()));
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

fn new_tool(function: LoadedFunction, calls: Arc<ToolCalls>) -> Arc<dyn DynamicTool> {
    let time_limit = function
        .time_limit
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .unwrap_or(CallLimits::default().time_limit);
    let effects = match function.effects.as_deref() {
        Some("outside") => Effects::Outside,
        _ => Effects::None,
    };
    let definition = ToolDefinition {
        effects,
        // The top of a module is state that lives on between calls.
        uses: Uses::State,
        time_limit: Some(time_limit + RUNNER_GRACE),
        ..ToolDefinition::new(function.name, function.description, function.parameters)
    };
    Arc::new(PythonTool {
        definition,
        time_limit,
        calls,
    })
}

/// A function in a file, as a tool.
struct PythonTool {
    definition: ToolDefinition,
    time_limit: Duration,
    calls: Arc<ToolCalls>,
}

impl DynamicTool for PythonTool {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn invoke(self: Arc<Self>, arguments: Map<String, Value>, _: Context) -> ToolFuture {
        Box::pin(async move {
            let name = &self.definition.name;
            self.calls.call(name, arguments, self.time_limit).await
        })
    }
}

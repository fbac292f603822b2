//! The model of each task: the one that the flags name, or the recording of the task.

use super::EvalArgs;
use crate::failure::Usage;
use crate::terminal::Console;
use cellblock::eval::{Suite, Task};
use cellblock::model::{Model, ModelChoice, ModelError, ReplayModel, RequestMatch};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The prefix of recordings that were written by hand, to contain a mistake.
const STAGED: &str = "scripted-";

/// Where models come from.
pub(super) struct TaskModels {
    model_source: ModelSource,
    source: Option<String>,
}

enum ModelSource {
    /// One model for all, and a directory where to record it.
    Chosen {
        choice: Box<ModelChoice>,
        record: Option<PathBuf>,
    },
    /// A recording for each task.
    Recorded(PathBuf),
}

impl TaskModels {
    /// What can be found out before anything runs is found out now.
    pub(super) async fn new(
        args: &EvalArgs,
        suite: &Suite,
        console: &Console,
    ) -> anyhow::Result<TaskModels> {
        let source = args.source.clone();
        if let Some(folder) = &args.replay {
            let model_source = ModelSource::Recorded(folder.clone());
            return Ok(TaskModels {
                model_source,
                source,
            });
        }
        let model = args.model.clone().or_found(console).await?;
        let mut choice = model.served_choice(console).await?;
        let record = choice.record.take();
        choice
            .open(variable)
            .map_err(|error| Usage::plain(error.to_string()))?;
        if let Some(folder) = &record {
            std::fs::create_dir_all(folder)
                .map_err(|error| Usage::plain(format!("--record {}: {error}", folder.display())))?;
            let mut files = suite.tasks.iter().map(|task| file_of(folder, task));
            if let Some(file) = files.find(|file| file.exists()) {
                return Err(Usage::plain(format!(
                    "{} is there already, and a recording is never written over",
                    file.display()
                )));
            }
        }
        choice.record_source = source.clone().or(choice.record_source);
        let choice = Box::new(choice);
        let model_source = ModelSource::Chosen { choice, record };
        Ok(TaskModels {
            model_source,
            source,
        })
    }

    /// The model for a task.
    pub(super) fn open(&self, task: &Task) -> Result<Arc<dyn Model>, ModelError> {
        match &self.model_source {
            ModelSource::Chosen { choice, record } => {
                let mut choice = choice.as_ref().clone();
                choice.record = record.as_ref().map(|folder| file_of(folder, task));
                choice.open(variable)
            }
            ModelSource::Recorded(folder) => Ok(Arc::new(replay(folder, task)?)),
        }
    }

    /// The description of the model that answers a task.
    pub(super) fn source(&self, task: &Task) -> Option<String> {
        self.source.clone().or_else(|| match &self.model_source {
            ModelSource::Chosen { .. } => None,
            ModelSource::Recorded(folder) => {
                Some(replay(folder, task).ok()?.header().source.clone())
            }
        })
    }
}

fn replay(folder: &Path, task: &Task) -> Result<ReplayModel, ModelError> {
    let staged = folder.join(format!("{STAGED}{}.jsonl", task.name));
    let file = if staged.exists() {
        staged
    } else {
        file_of(folder, task)
    };
    ReplayModel::open_matching(file, RequestMatch::Conversation)
}

fn file_of(folder: &Path, task: &Task) -> PathBuf {
    folder.join(format!("{}.jsonl", task.name))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

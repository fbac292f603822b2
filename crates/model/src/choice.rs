//! A model by the words of a person: names, addresses and variables, as they stand in a command or a configuration.

use crate::openai::{Key, KeyHeader, OpenAi, Settings};
use crate::{Model, ModelError, Overrides, Recorder, Replay};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

const OPENAI: &str = "https://api.openai.com/v1";
const DASHSCOPE: &str = "https://dashscope.aliyuncs.com/compatible-mode/v1";

/// The beginning of a model's name that means a recording.
const REPLAY: &str = "replay:";

/// Which model, said as a person says it. Every field may be left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Choice {
    /// The name of the model, or `replay:FILE`.
    pub model: Option<String>,
    /// The address of the endpoint.
    pub base_url: Option<String>,
    /// The variable that holds the key.
    pub key_variable: Option<String>,
    /// A file that holds the key, instead of a variable.
    pub key_file: Option<PathBuf>,
    /// What the model can do, where we do not know it or know it wrongly.
    pub capabilities: Overrides,
    /// A file to record all exchanges in.
    pub record: Option<PathBuf>,
    /// Who answers, for the header of the recording. Without it, the name of the model and its endpoint.
    pub record_source: Option<String>,
}

impl Choice {
    /// The choice with what is missing taken from variables: `CELLBLOCK_MODEL`, `CELLBLOCK_BASE_URL`, and those of OpenAI's own library.
    pub fn or_from(mut self, variable: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: [&str; 2]| {
            let values = names.into_iter().filter_map(&variable);
            values
                .map(|value| value.trim().to_owned())
                .find(|value| !value.is_empty())
        };
        self.model = self
            .model
            .or_else(|| first(["CELLBLOCK_MODEL", "OPENAI_MODEL"]));
        self.base_url = self
            .base_url
            .or_else(|| first(["CELLBLOCK_BASE_URL", "OPENAI_BASE_URL"]));
        self
    }

    /// The model that was chosen. `variable` gives the environment, where keys are.
    pub fn open(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Arc<dyn Model>, ModelError> {
        let Some(name) = self.model.as_deref() else {
            return Err(ModelError::Settings(
                "no model is chosen: give its name, or set CELLBLOCK_MODEL".into(),
            ));
        };
        let (model, source): (Arc<dyn Model>, String) = match name.strip_prefix(REPLAY) {
            Some(file) => {
                let replay = Replay::open(file)?;
                let source = replay.header().source.clone();
                (Arc::new(replay), source)
            }
            None => {
                let settings = self.settings(name, variable)?;
                let source = format!(
                    "{name} at {}",
                    crate::openai::without_secrets(&settings.base_url)
                );
                (Arc::new(OpenAi::new(settings)?), source)
            }
        };
        Ok(match &self.record {
            Some(file) => {
                let source = self.record_source.clone().unwrap_or(source);
                Arc::new(Recorder::new(model, file, source)?)
            }
            None => model,
        })
    }

    /// The settings of an endpoint, with its key.
    pub fn settings(
        &self,
        model: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Settings, ModelError> {
        let usual = if model.starts_with("qwen") && variable("DASHSCOPE_API_KEY").is_some() {
            DASHSCOPE
        } else {
            OPENAI
        };
        let base_url = self.base_url.as_deref().unwrap_or(usual);
        let key = match &self.key_file {
            Some(file) => Some(Key::in_file(file)?),
            None => Key::find(base_url, self.key_variable.as_deref(), variable)?,
        };
        let mut settings = Settings::new(base_url, model).with_key(key);
        settings.key_header = KeyHeader::for_endpoint(base_url);
        settings.capabilities = settings.capabilities.with(&self.capabilities);
        Ok(settings)
    }
}

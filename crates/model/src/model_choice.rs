//! The choice of a model by a command line, a configuration file or environment variables.

use crate::openai::{ApiKey, EndpointSettings, KeyHeader, OpenAiModel, is_loopback};
use crate::{CapabilityOverrides, Model, ModelError, RecordingModel, ReplayModel};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const OPENAI_URL: &str = "https://api.openai.com/v1";
const DASHSCOPE_URL: &str = "https://dashscope.aliyuncs.com/compatible-mode/v1";

/// The time to the first byte of a reply from a model on this machine.
const LOCAL_FIRST_BYTE: Duration = Duration::from_secs(1200);
/// The time for one whole reply from a model on this machine.
const LOCAL_WHOLE_REPLY: Duration = Duration::from_secs(3600);

/// The prefix of a model name that means a recording.
const REPLAY_PREFIX: &str = "replay:";

/// The model that a user chose. Every field may be left out.
///
/// ```
/// use cellblock_model::ModelChoice;
///
/// let choice = ModelChoice { model: Some("gpt-4o-mini".into()), ..ModelChoice::default() };
/// // In place of the environment of the process.
/// let variable = |name: &str| (name == "OPENAI_API_KEY").then(|| "sk-example".to_owned());
/// let model = choice.or_from_environment(variable).open(variable)?;
/// assert_eq!(model.name(), "gpt-4o-mini");
/// # Ok::<(), cellblock_model::ModelError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelChoice {
    /// The name of the model, or `replay:FILE`.
    pub model: Option<String>,
    /// The base URL of the endpoint.
    pub base_url: Option<String>,
    /// The environment variable that holds the API key.
    pub key_variable: Option<String>,
    /// A file that holds the API key, in place of a variable.
    pub key_file: Option<PathBuf>,
    /// Capabilities of the model that the user sets.
    pub capabilities: CapabilityOverrides,
    /// A file in which all exchanges are recorded.
    pub record: Option<PathBuf>,
    /// The source in the header of the recording. Without it, the name of the model and its endpoint are written.
    pub record_source: Option<String>,
}

impl ModelChoice {
    /// Fills in the missing model and base URL from the environment: `CELLBLOCK_MODEL` and `CELLBLOCK_BASE_URL`, else `OPENAI_MODEL`
    /// and `OPENAI_BASE_URL`. `variable` reads an environment variable.
    pub fn or_from_environment(mut self, variable: impl Fn(&str) -> Option<String>) -> Self {
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

    /// Opens the chosen model. `variable` reads an environment variable: the API key comes from there.
    pub fn open(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Arc<dyn Model>, ModelError> {
        let Some(name) = self.model.as_deref() else {
            return Err(ModelError::Settings(
                "no model is chosen: give its name, or set CELLBLOCK_MODEL".into(),
            ));
        };
        let (model, source): (Arc<dyn Model>, String) = match name.strip_prefix(REPLAY_PREFIX) {
            Some(file) => {
                let replay = ReplayModel::open(file)?;
                let source = replay.header().source.clone();
                (Arc::new(replay), source)
            }
            None => {
                let settings = self.endpoint_settings(name, variable)?;
                let source = format!(
                    "{name} at {}",
                    crate::openai::url_without_secrets(&settings.base_url)
                );
                (Arc::new(OpenAiModel::new(settings)?), source)
            }
        };
        Ok(match &self.record {
            Some(file) => {
                let source = self.record_source.clone().unwrap_or(source);
                Arc::new(RecordingModel::new(model, file, source)?)
            }
            None => model,
        })
    }

    /// The settings of the endpoint, with its API key.
    pub fn endpoint_settings(
        &self,
        model: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<EndpointSettings, ModelError> {
        let default_url = if model.starts_with("qwen") && variable("DASHSCOPE_API_KEY").is_some() {
            DASHSCOPE_URL
        } else {
            OPENAI_URL
        };
        let base_url = self.base_url.as_deref().unwrap_or(default_url);
        let key = match &self.key_file {
            Some(file) => Some(ApiKey::from_file(file)?),
            None => ApiKey::find(base_url, self.key_variable.as_deref(), variable)?,
        };
        let mut settings = EndpointSettings::new(base_url, model).with_key(key);
        settings.key_header = KeyHeader::for_endpoint(base_url);
        if is_loopback(base_url) {
            // A model on this machine reads a long prompt for minutes where the machine is busy. A second request would begin anew.
            settings.timeouts.first_byte = LOCAL_FIRST_BYTE;
            settings.timeouts.whole = LOCAL_WHOLE_REPLY;
        }
        settings.capabilities = settings.capabilities.with_overrides(&self.capabilities);
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_on_this_machine_has_longer_to_read_its_prompt() {
        let settings = |url: &str| {
            let choice = ModelChoice {
                base_url: Some(url.to_owned()),
                ..ModelChoice::default()
            };
            choice.endpoint_settings("m", |_| Some("key".to_owned()))
        };
        let first_byte = |url: &str| settings(url).map(|settings| settings.timeouts.first_byte);
        assert_eq!(first_byte("http://127.0.0.1:8080/v1"), Ok(LOCAL_FIRST_BYTE));
        assert_eq!(
            first_byte("https://example.org/v1"),
            Ok(Duration::from_secs(180))
        );
    }
}

//! Finds a model where the user named none, and opens models of this machine.

use super::args::ModelArgs;
use crate::commands::model as model_command;
use crate::failure::Usage;
use crate::terminal::{Console, Style};
use cellblock::model::{Model, ModelChoice};
use cellblock_local_model::{DEFAULT_MODEL, Discovery, FoundModel, LOCAL_PREFIX, LocalModels};
use std::sync::Arc;

const NO_MODEL: &str = "no model is chosen, and none was found";
/// The three ways to a model.
const WAYS: &str = "set the key of a provider, such as OPENAI_API_KEY or ANTHROPIC_API_KEY: its model is then used
      or start a server on this machine: Ollama, LM Studio, llama.cpp and vLLM are found at their usual ports
      or run `cellblock model get`: it brings a small model (1.1 GB) that runs on this machine";

impl ModelArgs {
    /// These flags with a model: the one that the user named, else one that is found. A person at a terminal is offered a small
    /// model where none is found.
    pub(crate) async fn or_found(mut self, console: &Console) -> anyhow::Result<ModelArgs> {
        if self.is_chosen() {
            return Ok(self);
        }
        let variable = |name: &str| std::env::var(name).ok();
        let discovery = Discovery::new(variable);
        let found = match &self.base_url {
            Some(url) => discovery.at(url).await,
            None => match discovery.by_key(variable) {
                Some(found) => Some(found),
                None => discovery.by_server().await,
            },
        };
        if let Some(found) = found {
            self.take(found, console);
            return Ok(self);
        }
        let stored = LocalModels::from_process()?.list();
        let name = match stored.first() {
            Some(model) => model.name.clone(),
            None if self.base_url.is_none() && is_wanted(console) => {
                model_command::get_default(console).await?;
                DEFAULT_MODEL.to_owned()
            }
            None => return Err(Usage::hinted(NO_MODEL, WAYS)),
        };
        self.model = Some(format!("{LOCAL_PREFIX}{name}"));
        Ok(self)
    }

    /// Opens the model. The server of a local model is started where it does not run, and runs at least as long as this process.
    pub(crate) async fn open(&self, console: &Console) -> anyhow::Result<Arc<dyn Model>> {
        self.served_choice(console)
            .await?
            .open(|name| std::env::var(name).ok())
            .map_err(|error| Usage::plain(error.to_string()))
    }

    /// The choice of the model. For a local model, its server runs and the choice has its address.
    pub(crate) async fn served_choice(&self, console: &Console) -> anyhow::Result<ModelChoice> {
        let choice = self.choice()?;
        let local = choice
            .model
            .as_deref()
            .and_then(|name| name.strip_prefix(LOCAL_PREFIX));
        let Some(name) = local.map(str::to_owned) else {
            return Ok(choice);
        };
        let served = model_command::serve(&name, console).await?;
        let choice = served.choice(choice);
        // The use of the server ends with this process.
        std::mem::forget(served);
        Ok(choice)
    }

    fn take(&mut self, found: FoundModel, console: &Console) {
        let FoundModel { choice, reason } = found;
        let name = choice.model.clone().unwrap_or_default();
        let line = format!("model {name} ({reason})");
        console.say(&console.on_err(Style::Dim, &line));
        self.model = choice.model;
        self.base_url = choice.base_url;
        let own = &mut self.capabilities;
        own.context_tokens = own.context_tokens.or(choice.capabilities.context_tokens);
        own.json_schema = own.json_schema.or(choice.capabilities.json_schema);
    }
}

/// Whether a person at the terminal wants the small model.
fn is_wanted(console: &Console) -> bool {
    let question =
        "No model was found. Bring a small one that runs on this machine (1.1 GB)? [y/N] ";
    console.confirm(question) == Some(true)
}

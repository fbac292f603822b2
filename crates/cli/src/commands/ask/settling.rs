//! The flags of whoever asks a model, with what the environment and the configuration say where no flag does.

use super::options::{AgentArgs, Equipment, ModelArgs};
use crate::args::{duration, seconds};
use crate::config::{AgentConfig, Config, Entry, Ledger, ModelConfig, Named, Text};
use crate::failure::Usage;
use cellblock::model::openai::ApiKey;
use cellblock::model::{Capabilities, CapabilityOverrides};
use cellblock::{Locale, Preload};
use std::env;

impl Equipment {
    /// The same, settled; and who said what.
    pub(crate) fn settled(&self) -> anyhow::Result<(Equipment, Vec<Entry>)> {
        let config = self.config.load()?;
        let mut ledger = Ledger::new(&config);
        let mut equipment = self.clone();
        equipment.model.settle(&mut ledger, &config)?;
        equipment.agent.settle(&mut ledger, &config.agent)?;
        equipment.agent.settle_preload(&mut ledger, &config)?;
        equipment.python = self.python.settled_in(&mut ledger, &config.session)?;
        equipment.session = self.session.settled_in(&mut ledger, &config.session)?;
        self.note_the_rest(&mut ledger, &config)?;
        Ok((equipment, ledger.entries))
    }

    /// What flags and file say elsewhere, for whoever wants to see all.
    fn note_the_rest(&self, ledger: &mut Ledger<'_>, config: &Config) -> anyhow::Result<()> {
        const MODE: &str = "approval.mode";
        let mode = format!("{:?}", self.approval.policy(config).mode).to_lowercase();
        if self.approval.approve.is_some() {
            ledger.entries.push(Entry::flagged(MODE, "--approve", mode));
        } else if config.says(MODE) {
            ledger.note(MODE, Some(mode));
        } else {
            ledger.entries.push(Entry::told(MODE, mode));
        }
        let folders = config.tools.folders.iter();
        let folders: Vec<String> = folders.map(|path| path.display().to_string()).collect();
        ledger.note("tools.folders", some(&folders.join(", ")));
        ledger.note("tools.secrets", some(&config.tools.secrets.join(", ")));
        let (mut otlp, no_flag) = (None, "");
        let named = Named {
            variables: &[
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                "OTEL_EXPORTER_OTLP_ENDPOINT",
            ],
            ..Named::new("trace.otlp", no_flag, "none")
        };
        let file = config.trace.otlp.clone().map(Text);
        ledger.plain::<String>(named, &mut otlp, file.as_ref())?;
        ledger.note("mcp.servers", some(&config.mcp.names().join(", ")));
        Ok(())
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl ModelArgs {
    fn settle(&mut self, ledger: &mut Ledger<'_>, config: &Config) -> anyhow::Result<()> {
        let file: &ModelConfig = &config.model;
        let name = Named {
            variables: &["CELLBLOCK_MODEL", "OPENAI_MODEL"],
            ..Named::new("model.name", "--model", "")
        };
        ledger.plain(name, &mut self.model, file.name.as_ref())?;
        let base_url = Named {
            variables: &["CELLBLOCK_BASE_URL", "OPENAI_BASE_URL"],
            ..Named::new("model.base_url", "--base-url", "the provider's own")
        };
        ledger.plain(base_url, &mut self.base_url, file.base_url.as_ref())?;
        if file.key_variable.is_some() && file.key_file.is_some() {
            return Err(Usage::plain(
                "[model] has both `key_variable` and `key_file`: leave one out",
            ));
        }
        let variable = Named::new("model.key_variable", "--key-variable", "");
        ledger.plain(variable, &mut self.key_variable, file.key_variable.as_ref())?;
        // A flag or a variable comes before the file, whichever of the two keys the file has.
        let in_file = file.key_file.as_deref().map(|path| config.path(path));
        self.key_file = in_file.or(self.key_file.take());
        self.key_file.take_if(|_| self.key_variable.is_some());
        ledger.note(
            "model.key_file",
            self.key_file
                .as_ref()
                .map(|path| path.display().to_string()),
        );
        ledger.entries.push(self.key());
        let reply = Named::new("model.reply_tokens", "--reply-tokens", "the endpoint's own");
        ledger.plain(reply, &mut self.reply_tokens, file.reply_tokens.as_ref())?;
        let temperature = Named::new("model.temperature", "--temperature", "the endpoint's own");
        ledger.plain(
            temperature,
            &mut self.temperature,
            file.temperature.as_ref(),
        )?;
        // A run that is resumed knows them already.
        if self.capabilities == CapabilityOverrides::default() {
            self.capabilities = file.capabilities.clone();
        }
        self.note_capabilities(ledger);
        Ok(())
    }

    /// Where the key is looked for, and whether it is there. Never the key.
    fn key(&self) -> Entry {
        let variables = ApiKey::variables(
            self.base_url
                .as_deref()
                .unwrap_or("https://api.openai.com/v1"),
            self.key_variable.as_deref(),
        );
        let found = variables
            .iter()
            .find(|name| env::var(name).is_ok_and(|key| !key.trim().is_empty()));
        let value = match (&self.key_file, found) {
            (Some(path), _) if path.exists() => format!("in the file {}", path.display()),
            (Some(path), _) => format!("not there: the file {}", path.display()),
            (None, Some(name)) => format!("in the variable {name}"),
            (None, None) => format!("not set: {}", variables.join(" or ")),
        };
        Entry::told("model.key", value)
    }

    fn note_capabilities(&self, ledger: &mut Ledger<'_>) {
        let known = Capabilities::of_model(self.model.as_deref().unwrap_or_default());
        let all = known.with_overrides(&self.capabilities);
        let CapabilityOverrides {
            tools,
            json_schema,
            images,
            late_system_messages,
            reasoning_in_history,
            context_tokens,
            prices,
        } = &self.capabilities;
        let mut note = |name: &str, is_told: bool, value: String| {
            let key = format!("model.capabilities.{name}");
            if is_told {
                ledger.note(&key, Some(value));
            } else {
                ledger.entries.push(Entry::told(&key, value));
            }
        };
        note("tools", tools.is_some(), all.tools.to_string());
        note(
            "json_schema",
            json_schema.is_some(),
            all.json_schema.to_string(),
        );
        note("images", images.is_some(), all.images.to_string());
        note(
            "late_system_messages",
            late_system_messages.is_some(),
            all.late_system_messages.to_string(),
        );
        note(
            "reasoning_in_history",
            reasoning_in_history.is_some(),
            all.reasoning_in_history.to_string(),
        );
        match self.context_tokens {
            Some(tokens) => ledger.entries.push(Entry::flagged(
                "model.capabilities.context_tokens",
                "--context-tokens",
                tokens.to_string(),
            )),
            None => note(
                "context_tokens",
                context_tokens.is_some(),
                all.context_tokens.to_string(),
            ),
        }
        if let Some(prices) = prices {
            let text = format!(
                "{} for input, {} for output, for a million tokens",
                prices.input, prices.output
            );
            ledger.note("model.capabilities.prices", Some(text));
        }
    }
}

impl AgentArgs {
    /// The same with its model, settled.
    pub(crate) fn settled_with(
        &self,
        model: &ModelArgs,
        config: &Config,
    ) -> anyhow::Result<(AgentArgs, ModelArgs)> {
        let mut ledger = Ledger::new(config);
        let (mut agent, mut model) = (self.clone(), model.clone());
        model.settle(&mut ledger, config)?;
        agent.settle(&mut ledger, &config.agent)?;
        Ok((agent, model))
    }

    fn settle(&mut self, ledger: &mut Ledger<'_>, file: &AgentConfig) -> anyhow::Result<()> {
        let named = Named::new;
        let format = named("agent.format", "--format", "by the model's abilities");
        ledger.plain(format, &mut self.format, file.format.as_ref())?;
        let prompt = named("agent.prompt", "--prompt", "minimal");
        ledger.plain(prompt, &mut self.prompt, file.prompt.as_ref())?;
        let locale = named("agent.locale", "--locale", "en");
        let read = |text: &str| text.parse::<Locale>().map_err(|error| error.to_string());
        let show = |locale: &Locale| format!("{locale:?}").to_lowercase();
        ledger.settle(locale, &mut self.locale, file.locale.as_ref(), read, show)?;
        let compute = named("agent.compute", "--no-compute", "true");
        ledger.switch(compute, &mut self.no_compute, false, file.compute.as_ref())?;
        let best_of = named("agent.best_of", "--best-of", "1");
        ledger.plain(best_of, &mut self.best_of, file.best_of.as_ref())?;
        let steps = named("agent.max_steps", "--max-steps", "20");
        ledger.plain(steps, &mut self.max_steps, file.max_steps.as_ref())?;
        let time = named("agent.max_time", "--max-time", "none");
        ledger.settle(
            time,
            &mut self.max_time,
            file.max_time.as_ref(),
            duration,
            seconds,
        )?;
        let tokens = named("agent.max_tokens", "--max-tokens", "none");
        ledger.plain(tokens, &mut self.max_tokens, file.max_tokens.as_ref())?;
        let cost = named("agent.max_cost", "--max-cost", "none");
        ledger.plain(cost, &mut self.max_cost, file.max_cost.as_ref())
    }

    fn settle_preload(&mut self, ledger: &mut Ledger<'_>, config: &Config) -> anyhow::Result<()> {
        let named = Named::new("session.preload", "", "none");
        let read = |text: &str| match preload(text) {
            Some(_) => Ok(text.to_owned()),
            None => Err("it is none, standard or full".to_owned()),
        };
        let file = config.session.preload.as_ref();
        ledger.settle(named, &mut self.preload, file, read, Clone::clone)
    }

    /// What is imported before the first session.
    pub(super) fn preload(&self) -> Preload {
        self.preload
            .as_deref()
            .and_then(preload)
            .unwrap_or(Preload::None)
    }
}

fn preload(name: &str) -> Option<Preload> {
    match name {
        "none" => Some(Preload::None),
        "standard" => Some(Preload::Standard),
        "full" => Some(Preload::Full),
        _ => None,
    }
}

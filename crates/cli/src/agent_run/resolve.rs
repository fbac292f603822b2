//! Resolves the settings of commands that ask a model: flags, then environment variables, then the configuration file.

use super::args::{AgentArgs, AgentRunArgs, ModelArgs};
use crate::args::{duration, seconds};
use crate::config::{
    AgentConfig, Config, ModelConfig, ResolvedSetting, SettingResolver, SettingSpec, SettingText,
};
use crate::failure::Usage;
use cellblock::agent::RunLimits;
use cellblock::model::openai::ApiKey;
use cellblock::model::{Capabilities, CapabilityOverrides};
use cellblock::{Locale, Preload};
use std::env;

impl AgentRunArgs {
    /// The resolved settings, and where each value came from.
    pub(crate) fn resolve(&self) -> anyhow::Result<(AgentRunArgs, Vec<ResolvedSetting>)> {
        let config = self.config.load()?;
        let mut resolver = SettingResolver::new(&config);
        let mut agent_run_args = self.clone();
        agent_run_args.model.resolve(&mut resolver, &config)?;
        agent_run_args.agent.resolve(&mut resolver, &config.agent)?;
        agent_run_args
            .agent
            .resolve_preload(&mut resolver, &config)?;
        agent_run_args.python = self.python.resolve_in(&mut resolver, &config.session)?;
        agent_run_args.session = self.session.resolve_in(&mut resolver, &config.session)?;
        self.add_other_settings(&mut resolver, &config)?;
        Ok((agent_run_args, resolver.entries))
    }

    /// Adds the settings that are not resolved here, so that `cellblock config` can list all.
    fn add_other_settings(
        &self,
        resolver: &mut SettingResolver<'_>,
        config: &Config,
    ) -> anyhow::Result<()> {
        const MODE: &str = "approval.mode";
        let mode = format!("{:?}", self.approval.policy(config).mode).to_lowercase();
        if self.approval.approve.is_some() {
            resolver
                .entries
                .push(ResolvedSetting::flagged(MODE, "--approve", mode));
        } else if config.says(MODE) {
            resolver.note(MODE, Some(mode));
        } else {
            resolver.entries.push(ResolvedSetting::told(MODE, mode));
        }
        let folders = config.tools.folders.iter();
        let folders: Vec<String> = folders.map(|path| path.display().to_string()).collect();
        resolver.note("tools.folders", some(&folders.join(", ")));
        resolver.note("tools.secrets", some(&config.tools.secrets.join(", ")));
        let (mut otlp, no_flag) = (None, "");
        let spec = SettingSpec {
            variables: &[
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                "OTEL_EXPORTER_OTLP_ENDPOINT",
            ],
            ..SettingSpec::new("trace.otlp", no_flag, "none")
        };
        let file = config.trace.otlp.clone().map(SettingText);
        resolver.plain::<String>(spec, &mut otlp, file.as_ref())?;
        resolver.note("mcp.servers", some(&config.mcp.names().join(", ")));
        Ok(())
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl ModelArgs {
    fn resolve(
        &mut self,
        resolver: &mut SettingResolver<'_>,
        config: &Config,
    ) -> anyhow::Result<()> {
        let file: &ModelConfig = &config.model;
        let name = SettingSpec {
            variables: &["CELLBLOCK_MODEL", "OPENAI_MODEL"],
            ..SettingSpec::new("model.name", "--model", "")
        };
        resolver.plain(name, &mut self.model, file.name.as_ref())?;
        let base_url = SettingSpec {
            variables: &["CELLBLOCK_BASE_URL", "OPENAI_BASE_URL"],
            ..SettingSpec::new("model.base_url", "--base-url", "the provider's own")
        };
        resolver.plain(base_url, &mut self.base_url, file.base_url.as_ref())?;
        if file.key_variable.is_some() && file.key_file.is_some() {
            return Err(Usage::plain(
                "[model] has both `key_variable` and `key_file`: leave one out",
            ));
        }
        let variable = SettingSpec::new("model.key_variable", "--key-variable", "");
        resolver.plain(variable, &mut self.key_variable, file.key_variable.as_ref())?;
        // A flag or a variable comes before the file, whichever of the two keys the file has.
        let in_file = file.key_file.as_deref().map(|path| config.path(path));
        self.key_file = in_file.or(self.key_file.take());
        self.key_file.take_if(|_| self.key_variable.is_some());
        resolver.note(
            "model.key_file",
            self.key_file
                .as_ref()
                .map(|path| path.display().to_string()),
        );
        resolver.entries.push(self.key());
        let reply = SettingSpec::new("model.reply_tokens", "--reply-tokens", "the endpoint's own");
        resolver.plain(reply, &mut self.reply_tokens, file.reply_tokens.as_ref())?;
        let temperature =
            SettingSpec::new("model.temperature", "--temperature", "the endpoint's own");
        resolver.plain(
            temperature,
            &mut self.temperature,
            file.temperature.as_ref(),
        )?;
        // A run that is resumed knows them already.
        if self.capabilities == CapabilityOverrides::default() {
            self.capabilities = file.capabilities.clone();
        }
        self.note_capabilities(resolver);
        Ok(())
    }

    /// Where the key is looked for, and whether it is there. Never the key.
    fn key(&self) -> ResolvedSetting {
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
        ResolvedSetting::told("model.key", value)
    }

    fn note_capabilities(&self, resolver: &mut SettingResolver<'_>) {
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
                resolver.note(&key, Some(value));
            } else {
                resolver.entries.push(ResolvedSetting::told(&key, value));
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
            Some(tokens) => resolver.entries.push(ResolvedSetting::flagged(
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
            resolver.note("model.capabilities.prices", Some(text));
        }
    }
}

impl AgentArgs {
    /// Resolves the settings of the agent and of its model.
    pub(crate) fn resolve_with(
        &self,
        model: &ModelArgs,
        config: &Config,
    ) -> anyhow::Result<(AgentArgs, ModelArgs)> {
        let mut resolver = SettingResolver::new(config);
        let (mut agent, mut model) = (self.clone(), model.clone());
        model.resolve(&mut resolver, config)?;
        agent.resolve(&mut resolver, &config.agent)?;
        Ok((agent, model))
    }

    fn resolve(
        &mut self,
        resolver: &mut SettingResolver<'_>,
        file: &AgentConfig,
    ) -> anyhow::Result<()> {
        let spec = SettingSpec::new;
        let format = spec("agent.format", "--format", "by the model's abilities");
        resolver.plain(format, &mut self.format, file.format.as_ref())?;
        let prompt = spec("agent.prompt", "--prompt", "minimal");
        resolver.plain(prompt, &mut self.prompt, file.prompt.as_ref())?;
        let locale = spec("agent.locale", "--locale", "en");
        let read = |text: &str| text.parse::<Locale>().map_err(|error| error.to_string());
        let show = |locale: &Locale| format!("{locale:?}").to_lowercase();
        resolver.resolve(locale, &mut self.locale, file.locale.as_ref(), read, show)?;
        let compute = spec("agent.compute", "--no-compute", "true");
        resolver.switch(compute, &mut self.no_compute, false, file.compute.as_ref())?;
        let best_of = spec("agent.best_of", "--best-of", "1");
        resolver.plain(best_of, &mut self.best_of, file.best_of.as_ref())?;
        let steps = spec("agent.max_steps", "--max-steps", "")
            .with_default(RunLimits::default().steps.to_string());
        resolver.plain(steps, &mut self.max_steps, file.max_steps.as_ref())?;
        let time = spec("agent.max_time", "--max-time", "none");
        resolver.resolve(
            time,
            &mut self.max_time,
            file.max_time.as_ref(),
            duration,
            seconds,
        )?;
        let tokens = spec("agent.max_tokens", "--max-tokens", "none");
        resolver.plain(tokens, &mut self.max_tokens, file.max_tokens.as_ref())?;
        let cost = spec("agent.max_cost", "--max-cost", "none");
        resolver.plain(cost, &mut self.max_cost, file.max_cost.as_ref())
    }

    fn resolve_preload(
        &mut self,
        resolver: &mut SettingResolver<'_>,
        config: &Config,
    ) -> anyhow::Result<()> {
        let spec = SettingSpec::new("session.preload", "", "none");
        let read = |text: &str| match preload(text) {
            Some(_) => Ok(text.to_owned()),
            None => Err("it is none, standard or full".to_owned()),
        };
        let file = config.session.preload.as_ref();
        resolver.resolve(spec, &mut self.preload, file, read, Clone::clone)
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

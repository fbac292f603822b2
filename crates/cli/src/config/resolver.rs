//! Resolves settings: a flag comes first, then an environment variable, the file, the default. Records where each value came from.

use super::Config;
use super::sections::SettingText;
use crate::failure::Usage;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Resolves settings, and records where each value came from.
pub(crate) struct SettingResolver<'a> {
    config: &'a Config,
    pub(crate) entries: Vec<ResolvedSetting>,
}

/// A resolved setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ResolvedSetting {
    /// The name of the setting in the file, with its section.
    pub(crate) key: String,
    /// The value. `None` where it is not set and has no default.
    pub(crate) value: Option<String>,
    /// Where the value came from.
    pub(crate) from: SettingSource,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SettingSource {
    /// A flag with this name.
    Flag(String),
    /// An environment variable with this name.
    Variable(String),
    /// The file.
    File {
        /// The path of the file.
        path: PathBuf,
        /// The line in the file.
        line: Option<usize>,
    },
    /// The default: the setting is not set.
    Default,
}

/// The name of a setting, its flag, its variables and its default.
#[derive(Clone)]
pub(crate) struct SettingSpec {
    /// With its section: `agent.max_steps`.
    pub(crate) key: &'static str,
    pub(crate) flag: &'static str,
    /// The environment variables, in order. Empty for the usual one, which is made from the key.
    pub(crate) variables: &'static [&'static str],
    /// The default as a text for people. Empty where there is none.
    pub(crate) default: Cow<'static, str>,
}

impl ResolvedSetting {
    /// A value that follows from other settings.
    pub(crate) fn told(key: &str, value: String) -> ResolvedSetting {
        ResolvedSetting {
            key: key.to_owned(),
            value: Some(value),
            from: SettingSource::Default,
        }
    }

    /// A value that a flag gave.
    pub(crate) fn flagged(key: &str, flag: &str, value: String) -> ResolvedSetting {
        ResolvedSetting {
            from: SettingSource::Flag(flag.to_owned()),
            ..ResolvedSetting::told(key, value)
        }
    }
}

impl SettingSpec {
    /// A setting whose variable is made from its key.
    pub(crate) const fn new(
        key: &'static str,
        flag: &'static str,
        default: &'static str,
    ) -> SettingSpec {
        SettingSpec {
            key,
            flag,
            variables: &[],
            default: Cow::Borrowed(default),
        }
    }

    /// The same setting with a default that the code knows as a value.
    pub(crate) fn with_default(self, default: String) -> SettingSpec {
        SettingSpec {
            default: Cow::Owned(default),
            ..self
        }
    }

    /// The environment variables of the setting.
    fn variables(&self) -> Vec<String> {
        if !self.variables.is_empty() {
            return self.variables.iter().map(ToString::to_string).collect();
        }
        let name = self.key.replace('.', "_").to_uppercase();
        vec![format!("CELLBLOCK_{name}")]
    }
}

impl<'a> SettingResolver<'a> {
    pub(crate) fn new(config: &'a Config) -> SettingResolver<'a> {
        SettingResolver {
            config,
            entries: Vec::new(),
        }
    }

    /// Resolves a setting whose text form is parsed and shown by its type.
    pub(crate) fn plain<T>(
        &mut self,
        spec: SettingSpec,
        field: &mut Option<T>,
        file: Option<&SettingText>,
    ) -> anyhow::Result<()>
    where
        T: FromStr<Err: Display> + Display,
    {
        let read = |text: &str| text.parse::<T>().map_err(|error| error.to_string());
        self.resolve(spec, field, file, read, ToString::to_string)
    }

    /// Resolves a setting that its flag can only switch one way. `flagged` is the value that the flag means.
    pub(crate) fn switch(
        &mut self,
        spec: SettingSpec,
        is_flagged: &mut bool,
        flagged: bool,
        file: Option<&SettingText>,
    ) -> anyhow::Result<()> {
        let mut field = is_flagged.then_some(flagged);
        self.plain(spec, &mut field, file)?;
        *is_flagged = field == Some(flagged);
        Ok(())
    }

    /// Resolves a list. One source gives the whole list. In a variable, commas separate the items.
    pub(crate) fn list<T>(
        &mut self,
        spec: SettingSpec,
        field: &mut Vec<T>,
        file: Option<&Vec<SettingText>>,
    ) -> anyhow::Result<()>
    where
        T: FromStr<Err: Display> + Display,
    {
        let read = |text: &str| -> Result<Vec<T>, String> {
            let items = text.split(',').map(str::trim);
            let items = items.filter(|item| !item.is_empty());
            items
                .map(|item| item.parse::<T>().map_err(|error| error.to_string()))
                .collect()
        };
        let show = |items: &Vec<T>| {
            let items: Vec<String> = items.iter().map(ToString::to_string).collect();
            items.join(", ")
        };
        let file = file.map(|items| {
            let items: Vec<&str> = items.iter().map(|item| item.0.as_str()).collect();
            SettingText(items.join(","))
        });
        let mut list = Some(std::mem::take(field)).filter(|list| !list.is_empty());
        self.resolve(spec, &mut list, file.as_ref(), read, show)?;
        *field = list.unwrap_or_default();
        Ok(())
    }

    /// Resolves a setting with functions that read and show its value.
    pub(crate) fn resolve<T>(
        &mut self,
        spec: SettingSpec,
        field: &mut Option<T>,
        file: Option<&SettingText>,
        read: impl Fn(&str) -> Result<T, String>,
        show: impl Fn(&T) -> String,
    ) -> anyhow::Result<()> {
        let from = if field.is_some() {
            SettingSource::Flag(spec.flag.to_owned())
        } else if let Some((variable, text)) = in_environment(&spec) {
            let value = read(&text).map_err(|problem| {
                Usage::plain(format!("the variable {variable}: {text:?}: {problem}"))
            })?;
            *field = Some(value);
            SettingSource::Variable(variable)
        } else if let Some(SettingText(text)) = file {
            let (path, line) = self.place(spec.key);
            let value = read(text).map_err(|problem| {
                let place = with_line(&path, line);
                Usage::plain(format!("{place}: {}: {text:?}: {problem}", spec.key))
            })?;
            *field = Some(value);
            SettingSource::File { path, line }
        } else {
            SettingSource::Default
        };
        let default = Some(spec.default).filter(|text| !text.is_empty());
        self.entries.push(ResolvedSetting {
            key: spec.key.to_owned(),
            value: field.as_ref().map(show).or(default.map(Cow::into_owned)),
            from,
        });
        Ok(())
    }

    /// Records a setting that only the file has.
    pub(crate) fn note(&mut self, key: &str, value: Option<String>) {
        let from = match &value {
            Some(_) => {
                let (path, line) = self.place(key);
                SettingSource::File { path, line }
            }
            None => SettingSource::Default,
        };
        let key = key.to_owned();
        self.entries.push(ResolvedSetting { key, value, from });
    }

    fn place(&self, key: &str) -> (PathBuf, Option<usize>) {
        let path = self.config.file.clone().unwrap_or_default();
        (path, self.config.places.line_of(key))
    }
}

impl Display for SettingSource {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SettingSource::Flag(name) => write!(out, "flag {name}"),
            SettingSource::Variable(name) => write!(out, "variable {name}"),
            SettingSource::File { path, line } => out.write_str(&with_line(path, *line)),
            SettingSource::Default => out.write_str("default"),
        }
    }
}

fn with_line(path: &Path, line: Option<usize>) -> String {
    match line {
        Some(line) => format!("{}:{line}", path.display()),
        None => path.display().to_string(),
    }
}

fn in_environment(spec: &SettingSpec) -> Option<(String, String)> {
    spec.variables().into_iter().find_map(|name| {
        let value = std::env::var(&name).ok()?.trim().to_owned();
        (!value.is_empty()).then_some((name, value))
    })
}

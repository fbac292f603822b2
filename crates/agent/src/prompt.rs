//! The prompts for the model: versioned files under `prompts/`, in English and Chinese.
//!
//! The prompt of an action format is `prompts/format-NAME.LANGUAGE.md`.

use crate::builder::CodeExecution;
use crate::executor::{CodeEnvironment, NetworkWall};
use crate::format::{Format, FormatContext};
use cellblock_protocol::{Locale, UnlistedHosts};
use cellblock_tools::names::{COMPUTE, FINAL_ANSWER};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The beginning of a run's system prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prompt {
    /// A few lines: compute, go in small steps, do not guess.
    #[default]
    Minimal,
    /// The prompt of a researcher that works along a plan tree and draws charts.
    DeepResearch,
    /// A text of the caller.
    #[serde(rename = "own")]
    Custom(String),
}

/// A part of the prompts: one file for each language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptPart {
    /// The text of [`Prompt::Minimal`].
    Minimal,
    /// The text of [`Prompt::Minimal`] for a run without code.
    MinimalWithoutCode,
    /// The text of [`Prompt::DeepResearch`].
    DeepResearch,
    /// Where code runs and what it can import.
    Workspace,
    /// How to act in an action format.
    Format(Format),
    /// The functions that code can call.
    Functions,
    /// When to use the tool `compute`.
    Compute,
    /// The schema of the answer.
    AnswerSchema,
}

impl PromptPart {
    /// All parts.
    pub const ALL: [PromptPart; 12] = [
        PromptPart::Minimal,
        PromptPart::MinimalWithoutCode,
        PromptPart::DeepResearch,
        PromptPart::Workspace,
        PromptPart::Format(Format::Tools),
        PromptPart::Format(Format::Json),
        PromptPart::Format(Format::Xml),
        PromptPart::Format(Format::Markdown),
        PromptPart::Format(Format::NextStep),
        PromptPart::Functions,
        PromptPart::Compute,
        PromptPart::AnswerSchema,
    ];

    /// The text, with its placeholders `{{name}}`.
    pub fn text(self, locale: Locale) -> &'static str {
        self.split(locale).1
    }

    /// The version of the text. It changes with every change of the text.
    pub fn version(self, locale: Locale) -> u32 {
        let (head, _) = self.split(locale);
        head.strip_prefix("version: ")
            .and_then(|number| number.trim().parse().ok())
            .unwrap_or(0)
    }

    /// The text with every placeholder `{{name}}` replaced by its value. A value is not searched for placeholders again, and one that is
    /// missing counts as empty.
    pub fn fill(self, locale: Locale, values: &BTreeMap<&str, &str>) -> String {
        let mut rest = self.text(locale);
        let mut filled = String::with_capacity(rest.len());
        while let Some((before, after)) = rest.split_once("{{") {
            let Some((name, tail)) = after.split_once("}}") else {
                break;
            };
            filled.push_str(before);
            filled.push_str(values.get(name).copied().unwrap_or_default());
            rest = tail;
        }
        filled.push_str(rest);
        filled
    }

    fn split(self, locale: Locale) -> (&'static str, &'static str) {
        let (head, text) = self.file(locale).split_once("\n\n").unwrap_or_default();
        (head, text.trim_end())
    }

    fn file(self, locale: Locale) -> &'static str {
        macro_rules! both {
            ($name:literal) => {
                match locale {
                    Locale::En => include_str!(concat!("../prompts/", $name, ".en.md")),
                    Locale::Zh => include_str!(concat!("../prompts/", $name, ".zh.md")),
                }
            };
        }
        match self {
            PromptPart::Minimal => both!("minimal"),
            PromptPart::MinimalWithoutCode => both!("minimal-without-code"),
            PromptPart::DeepResearch => both!("deep-research"),
            PromptPart::Workspace => both!("workspace"),
            PromptPart::Format(Format::Tools) => both!("format-tools"),
            PromptPart::Format(Format::Json) => both!("format-json"),
            PromptPart::Format(Format::Xml) => both!("format-xml"),
            PromptPart::Format(Format::Markdown) => both!("format-markdown"),
            PromptPart::Format(Format::NextStep) => both!("format-next_step"),
            PromptPart::Functions => both!("functions"),
            PromptPart::Compute => both!("compute"),
            PromptPart::AnswerSchema => both!("answer-schema"),
        }
    }
}

/// The whole system prompt of a run.
pub(crate) fn system_prompt(
    prompt: &Prompt,
    format: Format,
    context: &FormatContext,
    code_execution: CodeExecution,
) -> String {
    let locale = context.locale;
    let runs_code = code_execution == CodeExecution::Enabled;
    let mut parts = vec![match prompt {
        Prompt::Minimal if runs_code => PromptPart::Minimal.text(locale).to_owned(),
        Prompt::Minimal => PromptPart::MinimalWithoutCode.text(locale).to_owned(),
        Prompt::DeepResearch => PromptPart::DeepResearch.text(locale).to_owned(),
        Prompt::Custom(text) => text.clone(),
    }];
    if runs_code {
        let none = match locale {
            Locale::En => "none",
            Locale::Zh => "无",
        };
        let dependencies = match context.dependencies.as_slice() {
            [] => none.to_owned(),
            names => names.join(", "),
        };
        let network = network_line(&context.surroundings, locale);
        let given = given_lines(&context.surroundings, locale);
        let values = [
            ("workspace", context.workspace.as_str()),
            ("dependencies", &dependencies),
            ("network", &network),
            ("given", &given),
        ];
        parts.push(PromptPart::Workspace.fill(locale, &values.into()));
    }
    // Without code and tools there is nothing but the answer.
    if runs_code || !context.registry.without(FINAL_ANSWER).names().is_empty() {
        parts.push(format.implementation().instructions(context));
    }
    if format.calls_tools() && context.registry.get(COMPUTE).is_some() {
        parts.push(PromptPart::Compute.text(locale).to_owned());
    }
    if let Some(schema) = &context.answer_schema {
        let schema = schema.to_string();
        let values = [("schema", schema.as_str())];
        parts.push(PromptPart::AnswerSchema.fill(locale, &values.into()));
    }
    parts.join("\n\n")
}

/// The most names of files, variables or imports that the prompt lists.
const MAX_LISTED_NAMES: usize = 30;

/// The sentence about the network.
fn network_line(surroundings: &CodeEnvironment, locale: Locale) -> String {
    if surroundings.network_wall == NetworkWall::LeftOut {
        let open = match locale {
            Locale::En => "The code can reach the network of this machine.",
            Locale::Zh => "代码可以访问本机的网络。",
        };
        return open.to_owned();
    }
    let rules = surroundings.network.join(", ");
    if surroundings.unlisted_hosts == UnlistedHosts::Ask {
        let open = match (locale, rules.is_empty()) {
            (_, true) => String::new(),
            (Locale::En, false) => format!("Over the network the code can reach {rules}. "),
            (Locale::Zh, false) => format!("代码可以通过网络访问：{rules}。"),
        };
        return match locale {
            Locale::En => format!(
                "{open}For another host, just send the HTTP request: the user is asked, and it goes on if the user agrees."
            ),
            Locale::Zh => {
                format!("{open}访问其他主机时直接发送 HTTP 请求：会询问用户，同意后请求继续。")
            }
        };
    }
    match (locale, rules.is_empty()) {
        (Locale::En, true) => "There is no network unless a tool offers it.".to_owned(),
        (Locale::Zh, true) => "除非有工具提供，否则没有网络。".to_owned(),
        (Locale::En, false) => {
            format!("Over the network the code can reach these, and nothing else: {rules}.")
        }
        (Locale::Zh, false) => format!("代码只能通过网络访问：{rules}。"),
    }
}

/// A line for each kind of thing that is there from the beginning.
fn given_lines(surroundings: &CodeEnvironment, locale: Locale) -> String {
    let lines = [
        (&surroundings.files, "Files that are there", "已有的文件"),
        (
            &surroundings.variables,
            "Variables that have values",
            "已有值的变量",
        ),
        (&surroundings.imports, "Imported already", "已导入"),
    ];
    let lines = lines.into_iter().filter(|(names, ..)| !names.is_empty());
    let lines = lines.map(|(names, english, chinese)| {
        let shown = names.iter().take(MAX_LISTED_NAMES);
        let shown: Vec<&str> = shown.map(String::as_str).collect();
        let shown = shown.join(", ");
        let more = names.len().saturating_sub(MAX_LISTED_NAMES);
        match (locale, more) {
            (Locale::En, 0) => format!("{english}: {shown}.\n"),
            (Locale::En, _) => format!("{english}: {shown}, and {more} more.\n"),
            (Locale::Zh, 0) => format!("{chinese}：{shown}。\n"),
            (Locale::Zh, _) => format!("{chinese}：{shown}，另有 {more} 个。\n"),
        }
    });
    lines.collect()
}

impl fmt::Display for Prompt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Prompt::Minimal => "minimal",
            Prompt::DeepResearch => "deep-research",
            Prompt::Custom(_) => "own",
        })
    }
}

/// There is no prompt of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no prompt {0:?}; the prompts are minimal and deep-research")]
pub struct UnknownPrompt(String);

impl FromStr for Prompt {
    type Err = UnknownPrompt;

    fn from_str(text: &str) -> Result<Prompt, UnknownPrompt> {
        match text {
            "minimal" => Ok(Prompt::Minimal),
            "deep-research" => Ok(Prompt::DeepResearch),
            other => Err(UnknownPrompt(other.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_that_is_open_is_never_called_closed() {
        let open = CodeEnvironment {
            network_wall: NetworkWall::LeftOut,
            ..CodeEnvironment::default()
        };
        let lines = [Locale::En, Locale::Zh].map(|locale| network_line(&open, locale));
        assert_eq!(
            lines,
            [
                "The code can reach the network of this machine.",
                "代码可以访问本机的网络。"
            ]
        );
    }
}

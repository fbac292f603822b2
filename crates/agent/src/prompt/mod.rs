//! The words for the model, as versioned files under `prompts/`, in both languages.

use crate::format::{Facts, Format};
use cellblock_protocol::Locale;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What a run's system prompt begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prompt {
    /// A few lines: compute, go in small steps, do not guess.
    #[default]
    Minimal,
    /// A researcher who works along a plan tree and draws what it finds.
    DeepResearch,
    /// Words of your own.
    Own(String),
}

/// A file of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// [`Prompt::Minimal`].
    Minimal,
    /// [`Prompt::DeepResearch`].
    DeepResearch,
    /// Where code runs and what it can import.
    Surroundings,
    /// How to act in a format.
    Format(Format),
    /// The functions that code can call.
    Functions,
    /// When to use `compute`.
    Compute,
    /// What the answer must look like.
    AnswerSchema,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 11] = [
        Part::Minimal,
        Part::DeepResearch,
        Part::Surroundings,
        Part::Format(Format::Tools),
        Part::Format(Format::Json),
        Part::Format(Format::Xml),
        Part::Format(Format::Markdown),
        Part::Format(Format::NextStep),
        Part::Functions,
        Part::Compute,
        Part::AnswerSchema,
    ];

    /// The words, without their version.
    pub fn text(self, locale: Locale) -> &'static str {
        self.split(locale).1
    }

    /// The version of the words: another number, other words.
    pub fn version(self, locale: Locale) -> u32 {
        let (head, _) = self.split(locale);
        head.strip_prefix("version: ")
            .and_then(|number| number.trim().parse().ok())
            .unwrap_or(0)
    }

    fn split(self, locale: Locale) -> (&'static str, &'static str) {
        let (head, text) = self.file(locale).split_once("\n\n").unwrap_or_default();
        (head, text.trim_end())
    }

    fn file(self, locale: Locale) -> &'static str {
        macro_rules! both {
            ($name:literal) => {
                match locale {
                    Locale::En => include_str!(concat!("../../prompts/", $name, ".en.md")),
                    Locale::Zh => include_str!(concat!("../../prompts/", $name, ".zh.md")),
                }
            };
        }
        match self {
            Part::Minimal => both!("minimal"),
            Part::DeepResearch => both!("deep-research"),
            Part::Surroundings => both!("surroundings"),
            Part::Format(Format::Tools) => both!("format-tools"),
            Part::Format(Format::Json) => both!("format-json"),
            Part::Format(Format::Xml) => both!("format-xml"),
            Part::Format(Format::Markdown) => both!("format-markdown"),
            Part::Format(Format::NextStep) => both!("format-next_step"),
            Part::Functions => both!("functions"),
            Part::Compute => both!("compute"),
            Part::AnswerSchema => both!("answer-schema"),
        }
    }
}

/// The words of a file with `{{name}}` filled in. What is filled in is not searched again.
pub fn fill(part: Part, locale: Locale, words: &[(&str, &str)]) -> String {
    let mut rest = part.text(locale);
    let mut filled = String::with_capacity(rest.len());
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, tail)) = after.split_once("}}") else {
            break;
        };
        filled.push_str(before);
        let word = words.iter().find(|(key, _)| *key == name);
        filled.push_str(word.map_or("", |(_, text)| text));
        rest = tail;
    }
    filled.push_str(rest);
    filled
}

/// The whole system prompt of a run.
pub(crate) fn system_prompt(
    prompt: &Prompt,
    format: Format,
    facts: &Facts,
    runs_code: bool,
) -> String {
    let locale = facts.locale;
    let mut parts = vec![match prompt {
        Prompt::Minimal => Part::Minimal.text(locale).to_owned(),
        Prompt::DeepResearch => Part::DeepResearch.text(locale).to_owned(),
        Prompt::Own(text) => text.clone(),
    }];
    if runs_code {
        let none = match locale {
            Locale::En => "none",
            Locale::Zh => "无",
        };
        let dependencies = match facts.dependencies.as_slice() {
            [] => none.to_owned(),
            names => names.join(", "),
        };
        let words = [
            ("workspace", facts.workspace.as_str()),
            ("dependencies", &dependencies),
        ];
        parts.push(fill(Part::Surroundings, locale, &words));
    }
    parts.push(format.implementation().instructions(facts));
    let is_called = matches!(format, Format::Tools | Format::NextStep);
    if is_called && facts.registry.get("compute").is_some() {
        parts.push(Part::Compute.text(locale).to_owned());
    }
    if let Some(schema) = &facts.answer_schema {
        parts.push(fill(
            Part::AnswerSchema,
            locale,
            &[("schema", &schema.to_string())],
        ));
    }
    parts.join("\n\n")
}

impl fmt::Display for Prompt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Prompt::Minimal => "minimal",
            Prompt::DeepResearch => "deep-research",
            Prompt::Own(_) => "own",
        })
    }
}

impl FromStr for Prompt {
    type Err = String;

    fn from_str(text: &str) -> Result<Prompt, String> {
        match text {
            "minimal" => Ok(Prompt::Minimal),
            "deep-research" => Ok(Prompt::DeepResearch),
            other => Err(format!(
                "there is no prompt {other:?}; the prompts are minimal and deep-research"
            )),
        }
    }
}

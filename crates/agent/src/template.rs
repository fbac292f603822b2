//! Questions with blanks and a type, that can be asked like functions are called.

mod file;
mod tool;

use crate::agent::CodeUse;
use cellblock_protocol::Seed;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

pub(crate) use tool::TemplateTool;

/// A question with parameters, a type of its answer, and a scope of its own.
///
/// Its arguments and its scope are the variables of its session. It does not see what its caller's code bound, and nobody sees
/// what its code binds.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    name: String,
    description: String,
    prompt: String,
    parameters: Vec<(String, Value)>,
    returns: Option<Value>,
    scope: Seed,
    code: CodeUse,
}

/// Why a template, or what it was given, cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The file cannot be read as a template.
    #[error("the template: {0}")]
    File(String),
    /// An argument is missing.
    #[error("the template `{template}` needs the argument `{argument}`")]
    Missing {
        /// Which template.
        template: String,
        /// Which argument.
        argument: String,
    },
    /// An argument that it does not have.
    #[error("the template `{template}` has no parameter `{argument}`; it has {known}")]
    Unknown {
        /// Which template.
        template: String,
        /// Which argument.
        argument: String,
        /// Those that it has.
        known: String,
    },
    /// An argument of another type.
    #[error("the argument `{argument}` of the template `{template}` does not fit: {problem}")]
    Unfit {
        /// Which template.
        template: String,
        /// Which argument.
        argument: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// A value in a question is shown up to here; code has all of it.
const LONGEST_SHOWN: usize = 4_000;

impl Template {
    /// A template that asks this. `{{name}}` stands for an argument.
    pub fn new(prompt: impl Into<String>) -> Template {
        Template {
            name: "template".to_owned(),
            description: String::new(),
            prompt: prompt.into(),
            parameters: Vec::new(),
            returns: None,
            scope: Seed::new(),
            code: CodeUse::Off,
        }
    }

    /// Its name as a tool.
    pub fn name(mut self, name: impl Into<String>) -> Template {
        self.name = name.into();
        self
    }

    /// What it does, for models that may call it.
    pub fn description(mut self, description: impl Into<String>) -> Template {
        self.description = description.into();
        self
    }

    /// A parameter of this type.
    pub fn param<T: JsonSchema>(self, name: impl Into<String>) -> Template {
        self.param_schema(name, schemars::schema_for!(T).to_value())
    }

    /// A parameter that fits this schema.
    pub fn param_schema(mut self, name: impl Into<String>, schema: Value) -> Template {
        self.parameters.push((name.into(), schema));
        self
    }

    /// The type of the answer.
    pub fn returns<T: JsonSchema>(self) -> Template {
        self.returns_schema(schemars::schema_for!(T).to_value())
    }

    /// The schema of the answer.
    pub fn returns_schema(mut self, schema: Value) -> Template {
        self.returns = Some(schema);
        self
    }

    /// A variable of the scope that it is defined in.
    pub fn scope(mut self, name: impl Into<String>, value: impl Into<Value>) -> Template {
        self.scope.insert(name.into(), value.into());
        self
    }

    /// Lets it run code.
    pub fn with_code(mut self) -> Template {
        self.code = CodeUse::On;
        self
    }

    /// Reads a template from Markdown with front matter.
    pub fn from_markdown(text: &str) -> Result<Template, TemplateError> {
        file::read(text)
    }

    pub(crate) fn code_use(&self) -> CodeUse {
        self.code
    }

    pub(crate) fn answer_schema(&self) -> Option<&Value> {
        self.returns.as_ref()
    }

    /// The variables of a run, and its question.
    pub(crate) fn bind(
        &self,
        arguments: Map<String, Value>,
        code: CodeUse,
    ) -> Result<(Seed, String), TemplateError> {
        self.check(&arguments)?;
        let mut seed = self.scope.clone();
        seed.extend(arguments);
        let mut question = self.prompt.clone();
        for (name, value) in &seed {
            question = question.replace(&format!("{{{{{name}}}}}"), &shown(value));
        }
        if !seed.is_empty() {
            let lines: Vec<String> = seed
                .iter()
                .map(|(name, value)| format!("{name} = {}", shown(value)))
                .collect();
            let head = match code {
                CodeUse::On => "Variables of the session:",
                CodeUse::Off => "Given:",
            };
            question = format!("{question}\n\n{head}\n{}", lines.join("\n"));
        }
        Ok((seed, question))
    }

    fn check(&self, arguments: &Map<String, Value>) -> Result<(), TemplateError> {
        for name in arguments.keys() {
            if !self.parameters.iter().any(|(known, _)| known == name) {
                let known: Vec<&str> = self
                    .parameters
                    .iter()
                    .map(|(name, _)| name.as_str())
                    .collect();
                return Err(TemplateError::Unknown {
                    template: self.name.clone(),
                    argument: name.clone(),
                    known: if known.is_empty() {
                        "none".to_owned()
                    } else {
                        known.join(", ")
                    },
                });
            }
        }
        for (name, schema) in &self.parameters {
            let Some(value) = arguments.get(name) else {
                return Err(TemplateError::Missing {
                    template: self.name.clone(),
                    argument: name.clone(),
                });
            };
            let unfit = |problem: String| TemplateError::Unfit {
                template: self.name.clone(),
                argument: name.clone(),
                problem,
            };
            let validator =
                jsonschema::validator_for(schema).map_err(|error| unfit(error.to_string()))?;
            validator
                .validate(value)
                .map_err(|error| unfit(error.to_string()))?;
        }
        Ok(())
    }

    /// The schema of its arguments as a tool.
    fn parameters_schema(&self) -> Map<String, Value> {
        let mut properties = Map::new();
        for (name, schema) in &self.parameters {
            let mut schema = schema.clone();
            if let Some(map) = schema.as_object_mut() {
                map.shift_remove("$schema");
                map.shift_remove("title");
            }
            properties.insert(name.clone(), schema);
        }
        let required: Vec<&String> = self.parameters.iter().map(|(name, _)| name).collect();
        let schema = json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        schema.as_object().cloned().unwrap_or_default()
    }
}

fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.chars().count() <= LONGEST_SHOWN {
        return text;
    }
    let beginning: String = text.chars().take(LONGEST_SHOWN).collect();
    format!("{beginning}…")
}

//! Templates: questions with parameters and a type of their answer, which can be called like functions.

use crate::agent::NestedRuns;
use crate::builder::{AgentBuilder, CodeExecution};
use crate::run::RunStatus;
use cellblock_protocol::Seed;
use cellblock_tools::{
    Context, DynamicTool, NO_TIME_LIMIT, Output, ToolDefinition, ToolError, ToolFuture,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A question with parameters and a type of its answer, which can be asked again and again and called by other runs.
///
/// The variables of its session are its arguments and its scope. A template does not see the variables of its caller, and the caller does
/// not see the variables of the template.
///
/// ```
/// use cellblock_agent::Template;
///
/// let template = Template::new("How many of `readings` are above {{limit}}?")
///     .name("count_above")
///     .param::<Vec<f64>>("readings")
///     .param::<f64>("limit")
///     .returns::<u32>()
///     .with_code();
/// # let _ = template;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    name: String,
    description: String,
    prompt: String,
    /// The names of the parameters with their schemas.
    parameters: Vec<(String, Value)>,
    returns: Option<Value>,
    scope: Seed,
    code_execution: CodeExecution,
}

/// A template, or one of its arguments, cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The file is not a template.
    #[error("the template: {0}")]
    File(String),
    /// An argument is missing.
    #[error("the template `{template}` needs the argument `{argument}`")]
    Missing {
        /// The name of the template.
        template: String,
        /// The name of the argument.
        argument: String,
    },
    /// The template has no parameter of this name.
    #[error("the template `{template}` has no parameter `{argument}`; it has {known}")]
    Unknown {
        /// The name of the template.
        template: String,
        /// The name of the argument.
        argument: String,
        /// The names of its parameters.
        known: String,
    },
    /// An argument does not fit the type of its parameter.
    #[error("the argument `{argument}` of the template `{template}` does not fit: {problem}")]
    Invalid {
        /// The name of the template.
        template: String,
        /// The name of the argument.
        argument: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// The characters of a value that a question shows. Code has the whole value.
const MAX_SHOWN_CHARS: usize = 4_000;

impl Template {
    /// A template with this question. `{{name}}` is replaced by the value of an argument or of the scope.
    pub fn new(prompt: impl Into<String>) -> Template {
        Template {
            name: "template".to_owned(),
            description: String::new(),
            prompt: prompt.into(),
            parameters: Vec::new(),
            returns: None,
            scope: Seed::new(),
            code_execution: CodeExecution::Disabled,
        }
    }

    /// Sets the name of the template as a tool.
    pub fn name(mut self, name: impl Into<String>) -> Template {
        self.name = name.into();
        self
    }

    /// Sets the description for models that may call the template.
    pub fn description(mut self, description: impl Into<String>) -> Template {
        self.description = description.into();
        self
    }

    /// Adds a parameter of this type.
    pub fn param<T: JsonSchema>(self, name: impl Into<String>) -> Template {
        self.param_schema(name, schemars::schema_for!(T).to_value())
    }

    /// Adds a parameter with this JSON schema.
    pub fn param_schema(mut self, name: impl Into<String>, schema: Value) -> Template {
        self.parameters.push((name.into(), schema));
        self
    }

    /// Sets the type of the answer.
    pub fn returns<T: JsonSchema>(self) -> Template {
        self.returns_schema(schemars::schema_for!(T).to_value())
    }

    /// Sets the JSON schema of the answer.
    pub fn returns_schema(mut self, schema: Value) -> Template {
        self.returns = Some(schema);
        self
    }

    /// Adds a variable of the scope in which the template is defined.
    pub fn scope(mut self, name: impl Into<String>, value: impl Into<Value>) -> Template {
        self.scope.insert(name.into(), value.into());
        self
    }

    /// Lets the template run code. By default it can only call tools.
    pub fn with_code(mut self) -> Template {
        self.code_execution = CodeExecution::Enabled;
        self
    }

    /// Reads a template from Markdown with front matter in TOML: see `docs/agent.md`.
    pub fn from_markdown(text: &str) -> Result<Template, TemplateError> {
        read_markdown(text)
    }

    pub(crate) fn code_execution(&self) -> CodeExecution {
        self.code_execution
    }

    pub(crate) fn answer_schema(&self) -> Option<&Value> {
        self.returns.as_ref()
    }

    /// The variables of a run of the template, and its question.
    pub(crate) fn bind(
        &self,
        arguments: Map<String, Value>,
        code_execution: CodeExecution,
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
            let head = match code_execution {
                CodeExecution::Enabled => "Variables of the session:",
                CodeExecution::Disabled => "Given:",
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
            let invalid = |problem: String| TemplateError::Invalid {
                template: self.name.clone(),
                argument: name.clone(),
                problem,
            };
            let validator =
                jsonschema::validator_for(schema).map_err(|error| invalid(error.to_string()))?;
            validator
                .validate(value)
                .map_err(|error| invalid(error.to_string()))?;
        }
        Ok(())
    }

    /// The schema of the arguments of the template as a tool.
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

/// A value as it stands in the question.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.chars().count() <= MAX_SHOWN_CHARS {
        return text;
    }
    let beginning: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    format!("{beginning}…")
}

/// The front matter of a template file.
///
/// ```text
/// +++
/// name = "outlier_count"
/// description = "How many readings lie far from the mean."
/// code = true
/// [params]
/// readings = "list of numbers"          # a type name, or a JSON schema as a table
/// [returns]
/// type = "integer"
/// [scope]
/// limit = 1
/// +++
/// The question.
/// ```
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FrontMatter {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    code: bool,
    #[serde(default)]
    params: Map<String, Value>,
    returns: Option<Value>,
    #[serde(default)]
    scope: Map<String, Value>,
}

fn read_markdown(text: &str) -> Result<Template, TemplateError> {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let rest = text.strip_prefix("+++").ok_or_else(|| {
        TemplateError::File(
            "it must begin with front matter: `+++`, lines of TOML, `+++`".to_owned(),
        )
    })?;
    let (front, prompt) = rest.split_once("\n+++").ok_or_else(|| {
        TemplateError::File("the front matter has no closing line `+++`".to_owned())
    })?;
    let front: FrontMatter =
        toml::from_str(front).map_err(|error| TemplateError::File(error.to_string()))?;
    if prompt.trim().is_empty() {
        return Err(TemplateError::File(
            "there is no question below the front matter".to_owned(),
        ));
    }
    let mut template = Template::new(prompt.trim())
        .name(front.name)
        .description(front.description);
    for (name, schema) in front.params {
        template = template.param_schema(name, schema_of(schema)?);
    }
    for (name, value) in front.scope {
        template = template.scope(name, value);
    }
    if let Some(schema) = front.returns {
        template = template.returns_schema(schema_of(schema)?);
    }
    Ok(if front.code {
        template.with_code()
    } else {
        template
    })
}

/// A JSON schema, or the schema of a type name such as `list of numbers`.
fn schema_of(value: Value) -> Result<Value, TemplateError> {
    let Value::String(word) = &value else {
        return Ok(value);
    };
    Ok(match word.as_str() {
        "text" => json!({"type": "string"}),
        "number" => json!({"type": "number"}),
        "integer" => json!({"type": "integer"}),
        "boolean" => json!({"type": "boolean"}),
        "list of numbers" => json!({"type": "array", "items": {"type": "number"}}),
        "list of texts" => json!({"type": "array", "items": {"type": "string"}}),
        "any" => json!({}),
        other => {
            return Err(TemplateError::File(format!(
                "there is no type {other:?}: write text, number, integer, boolean, list of numbers, list of texts, any, or a JSON schema as a table"
            )));
        }
    })
}

/// A template as a tool. Each call is a run of its own.
pub(crate) struct TemplateTool {
    template: Template,
    builder: AgentBuilder,
    nested_runs: NestedRuns,
}

impl TemplateTool {
    pub(crate) fn new(
        template: Template,
        builder: AgentBuilder,
        nested_runs: NestedRuns,
    ) -> TemplateTool {
        TemplateTool {
            template,
            builder,
            nested_runs,
        }
    }
}

impl DynamicTool for TemplateTool {
    fn definition(&self) -> ToolDefinition {
        let template = &self.template;
        let description = match template.description.as_str() {
            "" => template.prompt.lines().next().unwrap_or_default(),
            description => description,
        };
        let mut definition = ToolDefinition::new(
            template.name.clone(),
            description,
            template.parameters_schema(),
        );
        // A nested run has its own limits.
        definition.time_limit = Some(NO_TIME_LIMIT);
        definition
    }

    fn invoke(self: Arc<Self>, arguments: Map<String, Value>, _: Context) -> ToolFuture {
        Box::pin(async move {
            let agent = self.builder.clone().build()?;
            let observer = self.nested_runs.observer_for(&self.template.name);
            let outcome = agent
                .run_template(
                    &self.template,
                    arguments,
                    observer,
                    CancellationToken::new(),
                )
                .await?;
            self.nested_runs.add_usage(outcome.usage);
            match (outcome.status, outcome.answer) {
                (RunStatus::Answered, Some(answer)) => Ok(Output::json(answer)),
                (status, _) => {
                    let message = outcome.message.unwrap_or_default();
                    Err(ToolError::new(format!(
                        "`{}` found no answer ({status}): {message}",
                        self.template.name
                    )))
                }
            }
        })
    }
}

//! Templates as Markdown files with front matter in TOML.

use super::{Template, TemplateError};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// ```text
/// +++
/// name = "outlier_count"
/// description = "How many readings lie far from the mean."
/// code = true
/// [params]
/// readings = "list of numbers"          # a word, or a JSON schema as a table
/// [returns]
/// type = "integer"
/// [scope]
/// limit = 1
/// +++
/// The question.
/// ```
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Front {
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

pub(super) fn read(text: &str) -> Result<Template, TemplateError> {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let rest = text.strip_prefix("+++").ok_or_else(|| {
        TemplateError::File(
            "it must begin with front matter: `+++`, lines of TOML, `+++`".to_owned(),
        )
    })?;
    let (front, prompt) = rest.split_once("\n+++").ok_or_else(|| {
        TemplateError::File("the front matter has no closing line `+++`".to_owned())
    })?;
    let front: Front =
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

/// A JSON schema, or a word for a simple one.
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

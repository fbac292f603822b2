//! JSON schemas: made from Rust types, in the form of OpenAI's API, and for the check of arguments and
//! results.

mod check;
mod problems;
mod strict;

use crate::{PURPOSE_FIELD, ToolDefinition};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

pub(crate) use check::Checker;
use strict::strict_form;

/// The schema of a tool's parameters, and the doc comment of their type.
pub(crate) fn schema_of_parameters<T: JsonSchema>() -> (Map<String, Value>, Option<String>) {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut map = without_rust_details(schema);
    let description = match map.shift_remove("description") {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    (closed(map), description)
}

/// The schema of a tool's result.
pub(crate) fn schema_of_result<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    Value::Object(without_rust_details(
        settings.into_generator().into_root_schema_for::<T>(),
    ))
}

/// The schema with `"type": "object"`, and closed: no properties beyond those that it names.
fn closed(mut map: Map<String, Value>) -> Map<String, Value> {
    map.insert("type".to_owned(), json!("object"));
    map.entry("properties").or_insert_with(|| json!({}));
    map.entry("additionalProperties").or_insert(json!(false));
    map
}

fn without_rust_details(schema: Schema) -> Map<String, Value> {
    let mut value = schema.to_value();
    strip(&mut value, &mut Vec::new());
    match value {
        Value::Object(map) => map,
        // The schema `true` allows every value.
        _ => Map::new(),
    }
}

/// Removes what tells a model nothing: `$schema`, titles made from Rust names, formats made from Rust's
/// number types.
fn strip(value: &mut Value, path: &mut Vec<String>) {
    const RUST_FORMATS: [&str; 14] = [
        "int", "uint", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
        "int128", "uint128", "float", "double",
    ];
    match value {
        Value::Object(map) => {
            // A property may be called `title`.
            let is_schema = !matches!(
                path.last().map(String::as_str),
                Some("properties" | "$defs")
            );
            if is_schema {
                map.shift_remove("$schema");
                map.shift_remove("title");
                let format = map.get("format").and_then(Value::as_str);
                if format.is_some_and(|format| RUST_FORMATS.contains(&format)) {
                    map.shift_remove("format");
                }
            }
            for (key, inner) in map.iter_mut() {
                if matches!(key.as_str(), "default" | "const" | "enum" | "examples") && is_schema {
                    continue;
                }
                path.push(if is_schema {
                    key.clone()
                } else {
                    String::new()
                });
                strip(inner, path);
                path.pop();
            }
        }
        Value::Array(items) => {
            for item in items {
                path.push(String::new());
                strip(item, path);
                path.pop();
            }
        }
        _ => {}
    }
}

/// The form of the schemas for models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchemaForm {
    /// With `strict: true` where a schema fits into the strict subset.
    #[default]
    StrictWhereItFits,
    /// Never strict: for endpoints that do not know `strict`.
    Plain,
}

/// The schema of a tool in the form of OpenAI's API, `{"type": "function", "function": {…}}`, with the purpose
/// that a model must give.
pub fn function_schema(definition: &ToolDefinition, form: SchemaForm) -> Value {
    let parameters = with_purpose(&definition.parameters);
    let mut function = Map::new();
    function.insert("name".to_owned(), json!(definition.name));
    function.insert("description".to_owned(), json!(definition.description));
    match strict_form(&parameters).filter(|_| form == SchemaForm::StrictWhereItFits) {
        Some(strict) => {
            function.insert("parameters".to_owned(), strict);
            function.insert("strict".to_owned(), json!(true));
        }
        None => {
            function.insert("parameters".to_owned(), Value::Object(parameters));
        }
    }
    json!({"type": "function", "function": function})
}

/// Adds the purpose as the first property: a model that has said why makes a better call.
fn with_purpose(parameters: &Map<String, Value>) -> Map<String, Value> {
    let mut map = without_self_reference(parameters);
    let mut properties = Map::new();
    properties.insert(PURPOSE_FIELD.to_owned(), json!({"type": "string"}));
    if let Some(Value::Object(own)) = map.get("properties") {
        properties.extend(own.clone());
    }
    let mut required = vec![json!(PURPOSE_FIELD)];
    if let Some(Value::Array(own)) = map.get("required") {
        required.extend(own.iter().filter(|name| *name != PURPOSE_FIELD).cloned());
    }
    map.insert("type".to_owned(), json!("object"));
    map.insert("properties".to_owned(), Value::Object(properties));
    map.insert("required".to_owned(), Value::Array(required));
    map.insert("additionalProperties".to_owned(), json!(false));
    map
}

/// The schema without references to itself as `#`: they would ask for a purpose at every level. They refer to
/// a definition instead.
fn without_self_reference(parameters: &Map<String, Value>) -> Map<String, Value> {
    const ROOT: &str = "#/$defs/Root";
    let mut map = parameters.clone();
    let refers_to_itself = map.values_mut().fold(false, |found, value| {
        replace_self_references(value, ROOT) | found
    });
    if !refers_to_itself {
        return map;
    }
    let mut definitions = match map.shift_remove("$defs") {
        Some(Value::Object(own)) => own,
        _ => Map::new(),
    };
    definitions.insert("Root".to_owned(), Value::Object(map.clone()));
    map.insert("$defs".to_owned(), Value::Object(definitions));
    map
}

/// Replaces the target of every `{"$ref": "#"}`. Returns whether there was one.
fn replace_self_references(value: &mut Value, target: &str) -> bool {
    match value {
        Value::Object(map) => {
            let mut found = false;
            if let Some(reference) = map.get_mut("$ref")
                && *reference == "#"
            {
                *reference = json!(target);
                found = true;
            }
            for inner in map.values_mut() {
                found |= replace_self_references(inner, target);
            }
            found
        }
        Value::Array(items) => items.iter_mut().fold(false, |found, item| {
            replace_self_references(item, target) | found
        }),
        _ => false,
    }
}

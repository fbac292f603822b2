//! A tool in the form of OpenAI's API.

use crate::strict::strict_form;
use crate::{Definition, PURPOSE};
use serde_json::{Map, Value, json};

/// Which schemas to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchemaForm {
    /// With `strict: true` where a schema fits the strict subset.
    #[default]
    StrictWhereItFits,
    /// Never strict: for endpoints that do not know the word.
    Plain,
}

/// `{"type": "function", "function": {…}}`, with the purpose that a model must give.
pub fn function_schema(definition: &Definition, form: SchemaForm) -> Value {
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

/// The purpose comes first: a model that has said why makes a better call.
fn with_purpose(parameters: &Map<String, Value>) -> Map<String, Value> {
    let mut map = anchored(parameters);
    let mut properties = Map::new();
    properties.insert(
        PURPOSE.to_owned(),
        json!({"type": "string", "description": "Why you call this tool now, in one sentence."}),
    );
    if let Some(Value::Object(own)) = map.get("properties") {
        properties.extend(own.clone());
    }
    let mut required = vec![json!(PURPOSE)];
    if let Some(Value::Array(own)) = map.get("required") {
        required.extend(own.iter().filter(|name| *name != PURPOSE).cloned());
    }
    map.insert("type".to_owned(), json!("object"));
    map.insert("properties".to_owned(), Value::Object(properties));
    map.insert("required".to_owned(), Value::Array(required));
    map.insert("additionalProperties".to_owned(), json!(false));
    map
}

/// A schema that refers to itself as `#` would ask for a purpose at every level. It gets a definition to refer to instead.
fn anchored(parameters: &Map<String, Value>) -> Map<String, Value> {
    const ROOT: &str = "#/$defs/Root";
    let mut map = parameters.clone();
    let refers_to_itself = map
        .values_mut()
        .fold(false, |found, value| redirected(value, ROOT) | found);
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

/// Turns every `{"$ref": "#"}` to another target; whether there was one.
fn redirected(value: &mut Value, target: &str) -> bool {
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
                found |= redirected(inner, target);
            }
            found
        }
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |found, item| redirected(item, target) | found),
        _ => false,
    }
}

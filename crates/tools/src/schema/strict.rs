//! The strict subset of JSON schema, in which an endpoint guarantees that arguments fit to the schema.

use serde_json::{Map, Value, json};

/// The formats that the subset knows.
const KNOWN_FORMATS: [&str; 9] = [
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
];
/// The deepest nesting of the subset.
const MAX_LEVELS: usize = 5;
/// The most properties of the subset, in all levels together.
const MAX_PROPERTIES: usize = 100;

/// The schema in the strict subset: every property required, the optional ones nullable. `None` where it does not fit.
pub(crate) fn strict_form(parameters: &Map<String, Value>) -> Option<Value> {
    let mut properties = 0;
    strict(&Value::Object(parameters.clone()), 0, &mut properties)
}

fn strict(schema: &Value, level: usize, properties: &mut usize) -> Option<Value> {
    let map = schema.as_object()?;
    if level > MAX_LEVELS {
        return None;
    }
    let mut strict_map = Map::new();
    for (key, value) in map {
        let value = match key.as_str() {
            "type" | "enum" | "const" | "description" | "pattern" | "minimum" | "maximum"
            | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" | "minItems" | "maxItems" => {
                value.clone()
            }
            "format"
                if value
                    .as_str()
                    .is_some_and(|format| KNOWN_FORMATS.contains(&format)) =>
            {
                value.clone()
            }
            "$ref" => value.clone(),
            "items" => strict(value, level, properties)?,
            "anyOf" if level > 0 => {
                let branches = value.as_array()?.iter();
                Value::Array(
                    branches
                        .map(|branch| strict(branch, level, properties))
                        .collect::<Option<_>>()?,
                )
            }
            "$defs" => {
                let entries = value.as_object()?.iter();
                let strict = entries
                    .map(|(name, inner)| Some((name.clone(), strict(inner, 1, properties)?)));
                Value::Object(strict.collect::<Option<_>>()?)
            }
            // Handled below.
            "properties" | "required" => continue,
            "additionalProperties" if *value == json!(false) => continue,
            // Notes for a reader, which the subset does not know.
            "default" | "examples" | "$comment" | "deprecated" => continue,
            _ => return None,
        };
        strict_map.insert(key.clone(), value);
    }
    let kind = strict_map.get("type");
    if kind.is_none()
        && !["$ref", "anyOf", "enum", "const"]
            .iter()
            .any(|key| strict_map.contains_key(*key))
    {
        return None;
    }
    let is_object = match kind {
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(kind) => kind == "object",
        None => false,
    };
    if is_object {
        // Free-form objects are not in the subset.
        let inner = map.get("properties").and_then(Value::as_object)?;
        if inner.is_empty() && level > 0 {
            return None;
        }
        *properties += inner.len();
        if *properties > MAX_PROPERTIES {
            return None;
        }
        let required: Vec<&str> = match map.get("required") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let mut all = Map::new();
        for (name, property) in inner {
            let strict = strict(property, level + 1, properties)?;
            let strict = if required.contains(&name.as_str()) {
                strict
            } else {
                nullable(strict)
            };
            all.insert(name.clone(), strict);
        }
        strict_map.insert("required".to_owned(), all.keys().cloned().collect());
        strict_map.insert("properties".to_owned(), Value::Object(all));
        strict_map.insert("additionalProperties".to_owned(), json!(false));
    }
    Some(Value::Object(strict_map))
}

/// The schema that also allows null.
fn nullable(schema: Value) -> Value {
    let Value::Object(mut map) = schema else {
        return schema;
    };
    if let Some(Value::Array(options)) = map.get_mut("enum")
        && !options.contains(&Value::Null)
    {
        options.push(Value::Null);
    }
    // A constant becomes nullable only as an alternative.
    let kind = if map.contains_key("const") {
        None
    } else {
        map.get_mut("type")
    };
    match kind {
        Some(Value::Array(kinds)) => {
            if !kinds.iter().any(|kind| kind == "null") {
                kinds.push(json!("null"));
            }
            Value::Object(map)
        }
        Some(kind) => {
            *kind = json!([kind.take(), "null"]);
            Value::Object(map)
        }
        None => match map.get_mut("anyOf") {
            Some(Value::Array(branches)) => {
                if !branches
                    .iter()
                    .any(|branch| branch.get("type") == Some(&json!("null")))
                {
                    branches.push(json!({"type": "null"}));
                }
                Value::Object(map)
            }
            // Models look for the description outside of the alternatives.
            _ => {
                let description = map.shift_remove("description");
                let mut outer = Map::new();
                if let Some(description) = description {
                    outer.insert("description".to_owned(), description);
                }
                outer.insert("anyOf".to_owned(), json!([map, {"type": "null"}]));
                Value::Object(outer)
            }
        },
    }
}

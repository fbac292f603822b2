//! The JSON schemas of Rust types, as models and Python want them.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

/// The schema of a tool's parameters, and the description that stands at their type.
pub(crate) fn schema_of_parameters<T: JsonSchema>() -> (Map<String, Value>, Option<String>) {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut map = tidy(schema);
    let description = match map.shift_remove("description") {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    (closed(map), description)
}

/// The schema of a tool's result.
pub(crate) fn schema_of_result<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    Value::Object(tidy(settings.into_generator().into_root_schema_for::<T>()))
}

/// A schema of parameters from elsewhere, made to say what ours say: an object, and nothing beyond its properties.
pub(crate) fn closed(mut map: Map<String, Value>) -> Map<String, Value> {
    map.insert("type".to_owned(), json!("object"));
    map.entry("properties").or_insert_with(|| json!({}));
    map.entry("additionalProperties").or_insert(json!(false));
    map
}

fn tidy(schema: Schema) -> Map<String, Value> {
    let mut value = schema.to_value();
    strip(&mut value, &mut Vec::new());
    match value {
        Value::Object(map) => map,
        // `true`: anything goes.
        _ => Map::new(),
    }
}

/// Takes away what tells a model nothing: `$schema`, titles made from Rust names, formats made from Rust's number types.
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

//! The check of arguments and results against their schemas, and the conversion of arguments where nothing is
//! lost: `"60"` becomes 60.

use super::problems::ProblemWords;
use cellblock_protocol::Locale;
use jsonschema::Validator;
use serde_json::{Map, Number, Value};
use std::sync::OnceLock;

/// The most problems in one message.
const MAX_PROBLEMS: usize = 8;
/// The most references that are followed. A reference that leads to itself is no schema.
const MAX_REFERENCES: usize = 16;
/// Up to this integer a float is exact: 2^53.
const MAX_EXACT_FLOAT: f64 = 9_007_199_254_740_992.0;

/// A schema with its validator, which is made when it is first needed.
#[derive(Debug)]
pub(crate) struct Checker {
    schema: Value,
    /// The language of the problems.
    locale: Locale,
    validator: OnceLock<Result<Validator, String>>,
}

impl Checker {
    pub(crate) fn new(schema: Value, locale: Locale) -> Checker {
        Checker {
            schema,
            locale,
            validator: OnceLock::new(),
        }
    }

    /// Converts arguments to the types of the schema where nothing is lost, and checks them. The problems name
    /// each field, the expected value and the given one.
    pub(crate) fn check_arguments(
        &self,
        arguments: Map<String, Value>,
    ) -> Result<Map<String, Value>, String> {
        let mut value = Value::Object(arguments);
        convert_value(&mut value, &self.schema, &self.schema);
        self.check(&value)?;
        match value {
            Value::Object(map) => Ok(map),
            _ => Err("expected an object".to_owned()),
        }
    }

    /// Checks a value without converting it.
    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        let validator = self.validator()?;
        if validator.is_valid(value) {
            return Ok(());
        }
        let mut errors = validator.iter_errors(value);
        let mut problems: Vec<String> = errors
            .by_ref()
            .take(MAX_PROBLEMS)
            .map(|error| ProblemWords(self.locale).describe(&error, &self.schema))
            .collect();
        problems.dedup();
        let more = errors.count();
        if more > 0 {
            problems.push(match self.locale {
                Locale::En => format!("and {more} more problems"),
                Locale::Zh => format!("还有 {more} 个问题"),
            });
        }
        Err(problems.join("; "))
    }

    /// The validator; an error where the schema itself cannot be used.
    pub(crate) fn validator(&self) -> Result<&Validator, String> {
        let validator = self.validator.get_or_init(|| {
            // Nothing is fetched: a schema that refers to a URL is refused.
            jsonschema::options()
                .build(&self.schema)
                .map_err(|error| error.to_string())
        });
        validator
            .as_ref()
            .map_err(|problem| format!("its schema cannot be used: {problem}"))
    }
}

/// Converts a value along its schema. A value that does not fit stays as it is, for the check to name.
fn convert_value(value: &mut Value, schema: &Value, root: &Value) {
    let schema = resolve_reference(schema, root);
    if let Some(branches) = alternatives(schema) {
        let fits = |value: &Value| {
            branches
                .iter()
                .find(|branch| fits_type(value, resolve_reference(branch, root)))
        };
        if let Some(branch) = fits(value) {
            convert_value(value, branch, root);
            return;
        }
        for branch in branches {
            let mut tried = value.clone();
            convert_type(&mut tried, resolve_reference(branch, root));
            if tried != *value && fits_type(&tried, resolve_reference(branch, root)) {
                convert_value(&mut tried, branch, root);
                *value = tried;
                return;
            }
        }
        return;
    }
    convert_type(value, schema);
    match value {
        Value::Object(map) => convert_object(map, schema, root),
        Value::Array(items) => {
            if let Some(inner) = schema.get("items") {
                items
                    .iter_mut()
                    .for_each(|item| convert_value(item, inner, root));
            }
        }
        _ => {}
    }
}

fn convert_object(map: &mut Map<String, Value>, schema: &Value, root: &Value) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
    // Strict schemas make models send null for an optional field that shall be absent.
    map.retain(|name, value| {
        let inner = properties.and_then(|properties| properties.get(name));
        !(value.is_null()
            && !is_required(name)
            && inner.is_some_and(|inner| !allows_null(inner, root)))
    });
    let rest = schema
        .get("additionalProperties")
        .filter(|rest| rest.is_object());
    for (name, value) in map.iter_mut() {
        if let Some(inner) = properties
            .and_then(|properties| properties.get(name))
            .or(rest)
        {
            convert_value(value, inner, root);
        }
    }
}

/// The schema that a reference within the root schema leads to; a schema without a reference is returned as
/// it is.
fn resolve_reference<'a>(mut schema: &'a Value, root: &'a Value) -> &'a Value {
    for _ in 0..MAX_REFERENCES {
        let Some(target) = schema.get("$ref").and_then(Value::as_str) else {
            break;
        };
        match target
            .strip_prefix('#')
            .and_then(|pointer| root.pointer(pointer))
        {
            Some(found) => schema = found,
            None => break,
        }
    }
    schema
}

fn alternatives(schema: &Value) -> Option<&Vec<Value>> {
    let list = schema.get("anyOf").or_else(|| schema.get("oneOf"));
    list.and_then(Value::as_array)
}

fn allows_null(schema: &Value, root: &Value) -> bool {
    let schema = resolve_reference(schema, root);
    if let Some(branches) = alternatives(schema) {
        return branches.iter().any(|branch| allows_null(branch, root));
    }
    fits_type(&Value::Null, schema)
}

/// Whether the value has a type, constant or option that the schema names. The check finds the rest.
fn fits_type(value: &Value, schema: &Value) -> bool {
    if let Some(expected) = schema.get("const") {
        return value == expected;
    }
    if let Some(Value::Array(options)) = schema.get("enum") {
        return options.contains(value);
    }
    match schema.get("type") {
        None => true,
        Some(Value::Array(kinds)) => kinds
            .iter()
            .any(|kind| kind.as_str().is_some_and(|kind| has_type(value, kind))),
        Some(kind) => kind.as_str().is_none_or(|kind| has_type(value, kind)),
    }
}

fn has_type(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => true,
    }
}

/// Converts the value to a type that the schema names, if it has none of them.
fn convert_type(value: &mut Value, schema: &Value) {
    let kinds: Vec<&str> = match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return,
    };
    if kinds.iter().any(|kind| has_type(value, kind)) {
        return;
    }
    if let Some(converted) = kinds.iter().find_map(|kind| converted_to(value, kind)) {
        *value = converted;
    }
}

fn converted_to(value: &Value, kind: &str) -> Option<Value> {
    match (kind, value) {
        ("integer", Value::String(text)) => integer_from(text),
        ("integer", Value::Number(number)) => integer_from_float(number),
        ("number", Value::String(text)) => integer_from(text).or_else(|| float_from(text)),
        ("boolean", Value::String(text)) => match text.as_str() {
            "true" | "True" => Some(Value::Bool(true)),
            "false" | "False" => Some(Value::Bool(false)),
            _ => None,
        },
        ("string", Value::Number(number)) => Some(Value::String(number.to_string())),
        ("string", Value::Bool(flag)) => Some(Value::String(flag.to_string())),
        // Models often write JSON into a text.
        ("array", Value::String(text)) => serde_json::from_str(text).ok().filter(Value::is_array),
        ("object", Value::String(text)) => serde_json::from_str(text).ok().filter(Value::is_object),
        _ => None,
    }
}

/// The integer that a text is, if the text is written as JSON writes it.
fn integer_from(text: &str) -> Option<Value> {
    let number: Number = text.parse().ok()?;
    let is_integer = number.is_i64() || number.is_u64();
    (is_integer && number.to_string() == text).then_some(Value::Number(number))
}

fn float_from(text: &str) -> Option<Value> {
    let looks_decimal = text
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
    let number: f64 = text
        .parse()
        .ok()
        .filter(|number: &f64| looks_decimal && number.is_finite())?;
    Number::from_f64(number).map(Value::Number)
}

/// The integer that a float is: 60.0 is 60.
fn integer_from_float(number: &Number) -> Option<Value> {
    let float = number.as_f64()?;
    (float.fract() == 0.0 && float.abs() <= MAX_EXACT_FLOAT).then(|| Value::from(float as i64))
}

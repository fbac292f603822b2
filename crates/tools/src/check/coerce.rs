//! Bringing a value to the type that a schema wants, where nothing is lost by it: `"60"` becomes 60.

use serde_json::{Map, Number, Value};

/// Walks the value along its schema. What does not fit stays as it is, for the check to name.
pub(super) fn coerce(value: &mut Value, root: &Value) {
    walk(value, root, root);
}

fn walk(value: &mut Value, schema: &Value, root: &Value) {
    let schema = resolved(schema, root);
    if let Some(branches) = branches(schema) {
        let fits = |value: &Value| {
            branches
                .iter()
                .find(|branch| accepts(value, resolved(branch, root)))
        };
        if let Some(branch) = fits(value) {
            walk(value, branch, root);
            return;
        }
        for branch in branches {
            let mut tried = value.clone();
            convert(&mut tried, resolved(branch, root));
            if tried != *value && accepts(&tried, resolved(branch, root)) {
                walk(&mut tried, branch, root);
                *value = tried;
                return;
            }
        }
        return;
    }
    convert(value, schema);
    match value {
        Value::Object(map) => walk_object(map, schema, root),
        Value::Array(items) => {
            if let Some(inner) = schema.get("items") {
                items.iter_mut().for_each(|item| walk(item, inner, root));
            }
        }
        _ => {}
    }
}

fn walk_object(map: &mut Map<String, Value>, schema: &Value, root: &Value) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
    // An optional field that is null where null cannot be was meant to be absent: strict schemas make models send it.
    map.retain(|name, value| {
        let inner = properties.and_then(|properties| properties.get(name));
        !(value.is_null()
            && !is_required(name)
            && inner.is_some_and(|inner| !admits_null(inner, root)))
    });
    let rest = schema
        .get("additionalProperties")
        .filter(|rest| rest.is_object());
    for (name, value) in map.iter_mut() {
        if let Some(inner) = properties
            .and_then(|properties| properties.get(name))
            .or(rest)
        {
            walk(value, inner, root);
        }
    }
}

/// The target of a reference within the schema; anything else is itself.
fn resolved<'a>(mut schema: &'a Value, root: &'a Value) -> &'a Value {
    // A reference that leads to itself is no schema.
    for _ in 0..16 {
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

fn branches(schema: &Value) -> Option<&Vec<Value>> {
    let list = schema.get("anyOf").or_else(|| schema.get("oneOf"));
    list.and_then(Value::as_array)
}

fn admits_null(schema: &Value, root: &Value) -> bool {
    let schema = resolved(schema, root);
    if let Some(branches) = branches(schema) {
        return branches.iter().any(|branch| admits_null(branch, root));
    }
    accepts(&Value::Null, schema)
}

/// Whether the value is of a type that the schema names; the rest is for the check.
fn accepts(value: &Value, schema: &Value) -> bool {
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
            .any(|kind| kind.as_str().is_some_and(|kind| is_of(value, kind))),
        Some(kind) => kind.as_str().is_none_or(|kind| is_of(value, kind)),
    }
}

fn is_of(value: &Value, kind: &str) -> bool {
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

/// Turns the value into a type that the schema names, if it is of none of them.
fn convert(value: &mut Value, schema: &Value) {
    let kinds: Vec<&str> = match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return,
    };
    if kinds.iter().any(|kind| is_of(value, kind)) {
        return;
    }
    if let Some(converted) = kinds.iter().find_map(|kind| converted(value, kind)) {
        *value = converted;
    }
}

fn converted(value: &Value, kind: &str) -> Option<Value> {
    match (kind, value) {
        ("integer", Value::String(text)) => whole(text),
        ("integer", Value::Number(number)) => whole_float(number),
        ("number", Value::String(text)) => whole(text).or_else(|| fraction(text)),
        ("boolean", Value::String(text)) => match text.as_str() {
            "true" | "True" => Some(Value::Bool(true)),
            "false" | "False" => Some(Value::Bool(false)),
            _ => None,
        },
        ("string", Value::Number(number)) => Some(Value::String(number.to_string())),
        ("string", Value::Bool(truth)) => Some(Value::String(truth.to_string())),
        // Models like to write JSON into a text.
        ("array", Value::String(text)) => serde_json::from_str(text).ok().filter(Value::is_array),
        ("object", Value::String(text)) => serde_json::from_str(text).ok().filter(Value::is_object),
        _ => None,
    }
}

/// The number that a text is, written as we would write it.
fn whole(text: &str) -> Option<Value> {
    let number: Number = text.parse().ok()?;
    let is_whole = number.is_i64() || number.is_u64();
    (is_whole && number.to_string() == text).then_some(Value::Number(number))
}

fn fraction(text: &str) -> Option<Value> {
    let looks_decimal = text
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
    let number: f64 = text
        .parse()
        .ok()
        .filter(|number: &f64| looks_decimal && number.is_finite())?;
    Number::from_f64(number).map(Value::Number)
}

/// 60.0 is 60, as far as a float is exact.
fn whole_float(number: &Number) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64()?;
    (float.fract() == 0.0 && float.abs() <= EXACT).then(|| Value::from(float as i64))
}

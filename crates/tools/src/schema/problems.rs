//! Messages for a value that does not fit to its schema: the field, the expected value, the given one.

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;

/// How much of a value a message shows.
const MAX_VALUE_CHARS: usize = 60;
/// How much of a list of fields or options a message shows.
const MAX_LIST_CHARS: usize = 300;
/// How many unknown fields a message names.
const MAX_UNKNOWN_FIELDS: usize = 5;

/// One problem as a clause of a sentence.
pub(super) fn describe_problem(error: &ValidationError<'_>, root: &Value) -> String {
    describe_below(error, root, "")
}

/// One problem; `above` is the path of the value that the error's own path begins at.
fn describe_below(error: &ValidationError<'_>, root: &Value, above: &str) -> String {
    let pointer = format!("{above}{}", error.instance_path());
    let field = field_name(&pointer);
    let instance = error.instance();
    let expected = match error.kind() {
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let inner = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
            return format!(
                "missing field `{}`{}",
                field_name(&inner),
                expected_type(error, root, name)
            );
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            return describe_unknown_fields(&pointer, unexpected, error, root);
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            // The nearest alternative: the one whose type fits.
            let is_nearest = |errors: &&Vec<ValidationError<'static>>| {
                !errors.iter().any(|inner| {
                    inner.instance_path() == error.instance_path()
                        && matches!(
                            inner.kind(),
                            Kind::Type { .. } | Kind::Enum { .. } | Kind::Constant { .. }
                        )
                })
            };
            if let Some(inner) = context
                .iter()
                .find(is_nearest)
                .and_then(|errors| errors.first())
            {
                return describe_below(inner, root, above);
            }
            alternatives(context)
        }
        Kind::Type { kind } => type_names(kind),
        Kind::Enum { options } => one_of(options),
        Kind::Constant { expected_value } => expected_value.to_string(),
        Kind::Minimum { limit } => format!("a number of at least {limit}"),
        Kind::Maximum { limit } => format!("a number of at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("a number above {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("a number below {limit}"),
        Kind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("a text of at least {limit} characters"),
        Kind::MaxLength { limit } => format!("a text of at most {limit} characters"),
        Kind::MinItems { limit } => format!("a list of at least {limit} items"),
        Kind::MaxItems { limit } => format!("a list of at most {limit} items"),
        Kind::UniqueItems => "a list without repetitions".to_owned(),
        Kind::Pattern { pattern } => format!("a text that matches {pattern:?}"),
        Kind::Format { format } => format!("a text in the format {format}"),
        _ => return format!("`{field}`: {}", shorten(&error.to_string(), 200)),
    };
    format!(
        "`{field}`: expected {expected}, got {}",
        show_value(instance)
    )
}

/// The name of a field from its JSON pointer: `/a/0/b` is `a[0].b`.
fn field_name(pointer: &str) -> String {
    let mut text = String::new();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        if part.bytes().all(|byte| byte.is_ascii_digit()) && !part.is_empty() {
            text.push_str(&format!("[{part}]"));
        } else {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(&part);
        }
    }
    if text.is_empty() {
        "arguments".to_owned()
    } else {
        shorten(&text, 120)
    }
}

fn describe_unknown_fields(
    pointer: &str,
    unexpected: &[String],
    error: &ValidationError<'_>,
    root: &Value,
) -> String {
    let names: Vec<String> = unexpected
        .iter()
        .take(MAX_UNKNOWN_FIELDS)
        .map(|name| {
            let inner = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
            format!("`{}`", field_name(&inner))
        })
        .collect();
    let name = if unexpected.len() == 1 {
        "field"
    } else {
        "fields"
    };
    let known = failing_schema(error, root)
        .and_then(|schema| schema.get("properties")?.as_object())
        .map(|properties| properties.keys().cloned().collect::<Vec<_>>().join(", "))
        .filter(|known| !known.is_empty());
    match known {
        Some(known) => format!(
            "unknown {name} {}; the fields are {}",
            names.join(", "),
            shorten(&known, MAX_LIST_CHARS)
        ),
        None => format!("unknown {name} {}; it takes no fields", names.join(", ")),
    }
}

/// The text `: expected a text`, where the schema names the type of the field.
fn expected_type(error: &ValidationError<'_>, root: &Value, name: &str) -> String {
    let schema = failing_schema(error, root).and_then(|schema| schema.get("properties")?.get(name));
    match schema.and_then(|schema| schema_type_name(schema, root)) {
        Some(names) => format!(": expected {names}"),
        None => String::new(),
    }
}

/// The schema whose keyword failed.
fn failing_schema<'a>(error: &ValidationError<'_>, root: &'a Value) -> Option<&'a Value> {
    let path = error.schema_path().as_str();
    let (schema, _) = path.rsplit_once('/')?;
    root.pointer(schema)
}

fn schema_type_name(schema: &Value, root: &Value) -> Option<String> {
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let found = root.pointer(target.strip_prefix('#')?)?;
        return if found.get("$ref").is_some() {
            None
        } else {
            schema_type_name(found, root)
        };
    }
    if let Some(options) = schema.get("enum") {
        return Some(one_of(options));
    }
    let kind = match schema.get("type")? {
        Value::Array(kinds) => kinds.first()?.as_str()?.to_owned(),
        kind => kind.as_str()?.to_owned(),
    };
    Some(type_name(&kind).to_owned())
}

fn type_names(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(kind) => json_type_name(*kind).to_owned(),
        TypeKind::Multiple(kinds) => {
            let mut names: Vec<&str> = kinds.iter().map(json_type_name).collect();
            names.sort_by_key(|name| *name == "null");
            names.join(" or ")
        }
    }
}

fn alternatives(context: &[Vec<ValidationError<'static>>]) -> String {
    let mut names: Vec<String> = Vec::new();
    for error in context.iter().filter_map(|errors| errors.first()) {
        let name = match error.kind() {
            Kind::Type { kind } => type_names(kind),
            Kind::Enum { options } => one_of(options),
            Kind::Constant { expected_value } => expected_value.to_string(),
            _ => continue,
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() {
        "one of the alternatives of the schema".to_owned()
    } else {
        shorten(&names.join(" or "), MAX_LIST_CHARS)
    }
}

fn one_of(options: &Value) -> String {
    match options.as_array() {
        Some(options) => {
            let list: Vec<String> = options.iter().map(Value::to_string).collect();
            format!("one of {}", shorten(&list.join(", "), MAX_LIST_CHARS))
        }
        None => options.to_string(),
    }
}

fn json_type_name(kind: JsonType) -> &'static str {
    match kind {
        JsonType::String => "a text",
        JsonType::Integer => "a whole number",
        JsonType::Number => "a number",
        JsonType::Boolean => "true or false",
        JsonType::Array => "a list",
        JsonType::Object => "an object",
        JsonType::Null => "null",
    }
}

fn type_name(kind: &str) -> &str {
    match kind {
        "string" => "a text",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "array" => "a list",
        "object" => "an object",
        other => other,
    }
}

/// A value for a message: shortened, with control characters escaped.
fn show_value(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => match text.char_indices().nth(MAX_VALUE_CHARS) {
            Some((end, _)) => format!("{:?}…", &text[..end]),
            None => format!("{text:?}"),
        },
        other => other.to_string(),
    }
}

fn shorten(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

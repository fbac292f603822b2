//! What is wrong with a value, in words: the field, what was expected, what came.

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;

/// The most characters of a value that a message shows.
const LONGEST: usize = 60;

/// One problem as a clause.
pub(super) fn problem(error: &ValidationError<'_>, root: &Value) -> String {
    problem_below(error, root, "")
}

/// `above` is the path of the value that the error's own path begins at.
fn problem_below(error: &ValidationError<'_>, root: &Value, above: &str) -> String {
    let pointer = format!("{above}{}", error.instance_path());
    let field = field(&pointer);
    let instance = error.instance();
    let expected = match error.kind() {
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let inner = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
            return format!(
                "missing field `{}`{}",
                self::field(&inner),
                expectation(error, root, name)
            );
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            return unknown(&pointer, unexpected, error, root);
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            // The alternative that came nearest: the one that has no quarrel with the type.
            let is_near = |errors: &&Vec<ValidationError<'static>>| {
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
                .find(is_near)
                .and_then(|errors| errors.first())
            {
                return problem_below(inner, root, above);
            }
            alternatives(context)
        }
        Kind::Type { kind } => type_words(kind),
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
        _ => return format!("`{field}`: {}", cut(&error.to_string(), 200)),
    };
    format!("`{field}`: expected {expected}, got {}", shown(instance))
}

/// `/a/0/b` is `a[0].b`.
fn field(pointer: &str) -> String {
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
        cut(&text, 120)
    }
}

fn unknown(
    pointer: &str,
    unexpected: &[String],
    error: &ValidationError<'_>,
    root: &Value,
) -> String {
    let names: Vec<String> = unexpected
        .iter()
        .take(5)
        .map(|name| {
            let inner = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
            format!("`{}`", field(&inner))
        })
        .collect();
    let word = if unexpected.len() == 1 {
        "field"
    } else {
        "fields"
    };
    let known = owner(error, root)
        .and_then(|schema| schema.get("properties")?.as_object())
        .map(|properties| properties.keys().cloned().collect::<Vec<_>>().join(", "))
        .filter(|known| !known.is_empty());
    match known {
        Some(known) => format!(
            "unknown {word} {}; the fields are {}",
            names.join(", "),
            cut(&known, 300)
        ),
        None => format!("unknown {word} {}; it takes no fields", names.join(", ")),
    }
}

/// `: expected a text`, where the schema says so.
fn expectation(error: &ValidationError<'_>, root: &Value, name: &str) -> String {
    let schema = owner(error, root).and_then(|schema| schema.get("properties")?.get(name));
    match schema.and_then(|schema| schema_words(schema, root)) {
        Some(words) => format!(": expected {words}"),
        None => String::new(),
    }
}

/// The schema that holds the keyword which failed.
fn owner<'a>(error: &ValidationError<'_>, root: &'a Value) -> Option<&'a Value> {
    let path = error.schema_path().as_str();
    let (owner, _) = path.rsplit_once('/')?;
    root.pointer(owner)
}

fn schema_words(schema: &Value, root: &Value) -> Option<String> {
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let found = root.pointer(target.strip_prefix('#')?)?;
        return if found.get("$ref").is_some() {
            None
        } else {
            schema_words(found, root)
        };
    }
    if let Some(options) = schema.get("enum") {
        return Some(one_of(options));
    }
    let kind = match schema.get("type")? {
        Value::Array(kinds) => kinds.first()?.as_str()?.to_owned(),
        kind => kind.as_str()?.to_owned(),
    };
    Some(kind_words(&kind).to_owned())
}

fn type_words(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(kind) => json_type_words(*kind).to_owned(),
        TypeKind::Multiple(kinds) => {
            let mut words: Vec<&str> = kinds.iter().map(json_type_words).collect();
            words.sort_by_key(|word| *word == "null");
            words.join(" or ")
        }
    }
}

fn alternatives(context: &[Vec<ValidationError<'static>>]) -> String {
    let mut words: Vec<String> = Vec::new();
    for error in context.iter().filter_map(|errors| errors.first()) {
        let word = match error.kind() {
            Kind::Type { kind } => type_words(kind),
            Kind::Enum { options } => one_of(options),
            Kind::Constant { expected_value } => expected_value.to_string(),
            _ => continue,
        };
        if !words.contains(&word) {
            words.push(word);
        }
    }
    if words.is_empty() {
        "one of the alternatives of the schema".to_owned()
    } else {
        cut(&words.join(" or "), 300)
    }
}

fn one_of(options: &Value) -> String {
    match options.as_array() {
        Some(options) => {
            let list: Vec<String> = options.iter().map(Value::to_string).collect();
            format!("one of {}", cut(&list.join(", "), 300))
        }
        None => options.to_string(),
    }
}

fn json_type_words(kind: JsonType) -> &'static str {
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

fn kind_words(kind: &str) -> &str {
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

/// A value as a message shows it: never long, control characters escaped.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => match text.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{:?}…", &text[..end]),
            None => format!("{text:?}"),
        },
        other => other.to_string(),
    }
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

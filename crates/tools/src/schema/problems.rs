//! Messages for a value that does not fit to its schema: the field, the expected value, the given one.

use cellblock_protocol::Locale;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;

/// How much of a value a message shows.
const MAX_VALUE_CHARS: usize = 60;
/// How much of a list of fields or options a message shows.
const MAX_LIST_CHARS: usize = 300;
/// How many unknown fields a message names.
const MAX_UNKNOWN_FIELDS: usize = 5;

/// Describes problems in a language.
#[derive(Clone, Copy)]
pub(super) struct ProblemWords(pub(super) Locale);

impl ProblemWords {
    /// One problem as a clause of a sentence.
    pub(super) fn describe(self, error: &ValidationError<'_>, root: &Value) -> String {
        self.describe_below(error, root, "")
    }

    /// One of two texts.
    fn say<T>(self, english: T, chinese: T) -> T {
        match self.0 {
            Locale::En => english,
            Locale::Zh => chinese,
        }
    }

    /// One problem; `above` is the path of the value that the error's own path begins at.
    fn describe_below(self, error: &ValidationError<'_>, root: &Value, above: &str) -> String {
        let pointer = format!("{above}{}", error.instance_path());
        let field = field_name(&pointer);
        let expected = match error.kind() {
            Kind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                let inner = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
                let missing = self.say("missing field", "缺少字段");
                let expected = self.expected_type(error, root, name);
                return format!("{missing} `{}`{expected}", field_name(&inner));
            }
            Kind::AdditionalProperties { unexpected }
            | Kind::UnevaluatedProperties { unexpected } => {
                return self.unknown_fields(&pointer, unexpected, error, root);
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
                    return self.describe_below(inner, root, above);
                }
                self.alternatives(context)
            }
            Kind::Type { kind } => self.type_names(kind),
            Kind::Enum { options } => self.one_of(options),
            Kind::Constant { expected_value } => expected_value.to_string(),
            kind => match self.bound(kind) {
                Some(bound) => bound,
                None => return format!("`{field}`: {}", shorten(&error.to_string(), 200)),
            },
        };
        let given = self.show_value(error.instance());
        match self.0 {
            Locale::En => format!("`{field}`: expected {expected}, got {given}"),
            Locale::Zh => format!("`{field}`: 应为{expected}, 实际是 {given}"),
        }
    }

    /// What a keyword with a bound asks for. `None` for other keywords.
    fn bound(self, kind: &Kind) -> Option<String> {
        Some(match (self.0, kind) {
            (Locale::En, Kind::Minimum { limit }) => format!("a number of at least {limit}"),
            (Locale::Zh, Kind::Minimum { limit }) => format!("不小于 {limit} 的数"),
            (Locale::En, Kind::Maximum { limit }) => format!("a number of at most {limit}"),
            (Locale::Zh, Kind::Maximum { limit }) => format!("不大于 {limit} 的数"),
            (Locale::En, Kind::ExclusiveMinimum { limit }) => format!("a number above {limit}"),
            (Locale::Zh, Kind::ExclusiveMinimum { limit }) => format!("大于 {limit} 的数"),
            (Locale::En, Kind::ExclusiveMaximum { limit }) => format!("a number below {limit}"),
            (Locale::Zh, Kind::ExclusiveMaximum { limit }) => format!("小于 {limit} 的数"),
            (Locale::En, Kind::MultipleOf { multiple_of }) => {
                format!("a multiple of {multiple_of}")
            }
            (Locale::Zh, Kind::MultipleOf { multiple_of }) => format!("{multiple_of} 的倍数"),
            (Locale::En, Kind::MinLength { limit }) => {
                format!("a text of at least {limit} characters")
            }
            (Locale::Zh, Kind::MinLength { limit }) => format!("至少 {limit} 个字符的文本"),
            (Locale::En, Kind::MaxLength { limit }) => {
                format!("a text of at most {limit} characters")
            }
            (Locale::Zh, Kind::MaxLength { limit }) => format!("至多 {limit} 个字符的文本"),
            (Locale::En, Kind::MinItems { limit }) => format!("a list of at least {limit} items"),
            (Locale::Zh, Kind::MinItems { limit }) => format!("至少 {limit} 项的列表"),
            (Locale::En, Kind::MaxItems { limit }) => format!("a list of at most {limit} items"),
            (Locale::Zh, Kind::MaxItems { limit }) => format!("至多 {limit} 项的列表"),
            (_, Kind::UniqueItems) => self
                .say("a list without repetitions", "没有重复项的列表")
                .to_owned(),
            (Locale::En, Kind::Pattern { pattern }) => format!("a text that matches {pattern:?}"),
            (Locale::Zh, Kind::Pattern { pattern }) => format!("匹配 {pattern:?} 的文本"),
            (Locale::En, Kind::Format { format }) => format!("a text in the format {format}"),
            (Locale::Zh, Kind::Format { format }) => format!("格式为 {format} 的文本"),
            _ => return None,
        })
    }

    fn unknown_fields(
        self,
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
        let known = failing_schema(error, root)
            .and_then(|schema| schema.get("properties")?.as_object())
            .map(|properties| properties.keys().cloned().collect::<Vec<_>>().join(", "))
            .filter(|known| !known.is_empty());
        let names = names.join(", ");
        let known = known.map(|known| shorten(&known, MAX_LIST_CHARS));
        let word = if unexpected.len() == 1 {
            "field"
        } else {
            "fields"
        };
        match (self.0, known) {
            (Locale::En, Some(known)) => format!("unknown {word} {names}; the fields are {known}"),
            (Locale::En, None) => format!("unknown {word} {names}; it takes no fields"),
            (Locale::Zh, Some(known)) => format!("未知字段 {names}; 可用的字段是 {known}"),
            (Locale::Zh, None) => format!("未知字段 {names}; 它不接受任何字段"),
        }
    }

    /// The text `: expected a text`, where the schema names the type of the field.
    fn expected_type(self, error: &ValidationError<'_>, root: &Value, name: &str) -> String {
        let schema =
            failing_schema(error, root).and_then(|schema| schema.get("properties")?.get(name));
        match schema.and_then(|schema| self.schema_type_name(schema, root)) {
            Some(names) => format!("{}{names}", self.say(": expected ", ": 应为")),
            None => String::new(),
        }
    }

    fn schema_type_name(self, schema: &Value, root: &Value) -> Option<String> {
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let found = root.pointer(target.strip_prefix('#')?)?;
            return if found.get("$ref").is_some() {
                None
            } else {
                self.schema_type_name(found, root)
            };
        }
        if let Some(options) = schema.get("enum") {
            return Some(self.one_of(options));
        }
        let kind = match schema.get("type")? {
            Value::Array(kinds) => kinds.first()?.as_str()?.to_owned(),
            kind => kind.as_str()?.to_owned(),
        };
        Some(self.type_name(&kind).to_owned())
    }

    fn type_names(self, kind: &TypeKind) -> String {
        match kind {
            TypeKind::Single(kind) => self.json_type_name(*kind).to_owned(),
            TypeKind::Multiple(kinds) => {
                let mut names: Vec<&str> =
                    kinds.iter().map(|kind| self.json_type_name(kind)).collect();
                names.sort_by_key(|name| *name == "null");
                names.join(self.say(" or ", " 或 "))
            }
        }
    }

    fn alternatives(self, context: &[Vec<ValidationError<'static>>]) -> String {
        let mut names: Vec<String> = Vec::new();
        for error in context.iter().filter_map(|errors| errors.first()) {
            let name = match error.kind() {
                Kind::Type { kind } => self.type_names(kind),
                Kind::Enum { options } => self.one_of(options),
                Kind::Constant { expected_value } => expected_value.to_string(),
                _ => continue,
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if names.is_empty() {
            self.say("one of the alternatives of the schema", "模式中的一种形式")
                .to_owned()
        } else {
            shorten(&names.join(self.say(" or ", " 或 ")), MAX_LIST_CHARS)
        }
    }

    fn one_of(self, options: &Value) -> String {
        match options.as_array() {
            Some(options) => {
                let list: Vec<String> = options.iter().map(Value::to_string).collect();
                let list = shorten(&list.join(", "), MAX_LIST_CHARS);
                format!("{}{list}", self.say("one of ", "以下之一: "))
            }
            None => options.to_string(),
        }
    }

    fn json_type_name(self, kind: JsonType) -> &'static str {
        let name = match kind {
            JsonType::String => "string",
            JsonType::Integer => "integer",
            JsonType::Number => "number",
            JsonType::Boolean => "boolean",
            JsonType::Array => "array",
            JsonType::Object => "object",
            JsonType::Null => "null",
        };
        self.type_name(name)
    }

    fn type_name(self, kind: &str) -> &str {
        match kind {
            "string" => self.say("a text", "文本"),
            "integer" => self.say("a whole number", "整数"),
            "number" => self.say("a number", "数字"),
            "boolean" => self.say("true or false", "true 或 false"),
            "array" => self.say("a list", "列表"),
            "object" => self.say("an object", "对象"),
            other => other,
        }
    }

    /// A value for a message: shortened, with control characters escaped.
    fn show_value(self, value: &Value) -> String {
        match value {
            Value::Array(items) => match self.0 {
                Locale::En => format!("a list of {}", items.len()),
                Locale::Zh => format!("{} 项的列表", items.len()),
            },
            Value::Object(_) => self.say("an object", "对象").to_owned(),
            Value::String(text) => match text.char_indices().nth(MAX_VALUE_CHARS) {
                Some((end, _)) => format!("{:?}…", &text[..end]),
                None => format!("{text:?}"),
            },
            other => other.to_string(),
        }
    }
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

/// The schema whose keyword failed.
fn failing_schema<'a>(error: &ValidationError<'_>, root: &'a Value) -> Option<&'a Value> {
    let path = error.schema_path().as_str();
    let (schema, _) = path.rsplit_once('/')?;
    root.pointer(schema)
}

fn shorten(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

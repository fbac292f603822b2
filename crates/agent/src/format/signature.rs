//! Tools as typed Python signatures, for prompts.

use super::FormatContext;
use crate::prompt::PromptPart;
use cellblock_model::estimate_tokens;
use cellblock_protocol::Locale;
use cellblock_tools::names::{FINAL_ANSWER, PYTHON_BUILTINS};
use cellblock_tools::{Registry, ToolDefinition, Uses};
use serde_json::{Map, Value};

/// The tokens that the functions of a prompt may have with their whole documentation. Beyond them each has one line.
const MAX_DOCUMENTED_TOKENS: u64 = 2_500;

/// The tokens that the functions may have with one line each. Beyond them only the names are listed.
const MAX_LISTED_TOKENS: u64 = 2_500;

/// The characters of the one line of a function.
const MAX_LINE_CHARS: usize = 100;

/// The levels of lists and choices that a type shows.
const MAX_TYPE_DEPTH: usize = 4;

/// The level up to which an object is shown with its fields.
const MAX_FIELD_DEPTH: usize = 1;

/// The values of a choice that a type shows.
const MAX_CHOICES: usize = 12;

/// The functions of the guest that a tool does not replace. Such a tool is reachable as `tools.NAME` alone, like one with the name of a builtin.
const GUEST_FUNCTIONS: &[&str] = &["display", "tools"];

/// The part of a prompt with the functions that code can call. Empty where there are none.
pub(super) fn functions_for_code(context: &FormatContext) -> String {
    let definitions: Vec<&ToolDefinition> = offered_to_code(&context.registry).collect();
    let join = |text: &dyn Fn(&ToolDefinition) -> String, separator: &str| {
        let texts: Vec<String> = definitions
            .iter()
            .map(|definition| text(definition))
            .collect();
        texts.join(separator)
    };
    let documented = join(&documented, "\n");
    if definitions.is_empty() || estimate_tokens(&documented) <= MAX_DOCUMENTED_TOKENS {
        return documented;
    }
    let listed = join(&one_line, "\n");
    let listed = match estimate_tokens(&listed) <= MAX_LISTED_TOKENS {
        true => listed,
        false => join(&|definition| python_name(definition), ", "),
    };
    let search = match context.locale {
        Locale::En => "print(tools.search(\"words\")) shows the descriptions of those that fit.",
        Locale::Zh => "print(tools.search(\"关键词\")) 显示相符工具的说明。",
    };
    format!("{listed}\n{search}")
}

/// The functions as a part of the prompt, with its heading.
pub(super) fn functions_part(context: &FormatContext) -> Option<String> {
    let functions = functions_for_code(context);
    let values = [("functions", functions.as_str())];
    let text = PromptPart::Functions.fill(context.locale, &values.into());
    (!functions.is_empty()).then_some(text)
}

/// The tools that code can call, without `final_answer`: another part of the prompt explains it.
fn offered_to_code(registry: &Registry) -> impl Iterator<Item = &ToolDefinition> {
    registry.definitions().filter(|definition| {
        definition.uses != Uses::Interpreter && definition.name != FINAL_ANSWER
    })
}

/// A tool for the format `next_step`: its signature, its description, and the schema of its arguments where a signature cannot show them.
pub(super) fn for_step(definition: &ToolDefinition) -> String {
    let text = documented(definition);
    let text = text.strip_prefix("def ").unwrap_or(&text);
    let has_nested_fields = definition.parameters.contains_key("$defs");
    match has_nested_fields {
        true => {
            let schema = Value::Object(definition.parameters.clone());
            format!("{text}\n    schema: {schema}")
        }
        false => text.to_owned(),
    }
}

/// A tool with its signature, its whole description, and the descriptions of its parameters.
fn documented(definition: &ToolDefinition) -> String {
    let mut text = format!("def {}:\n    \"\"\"", signature(definition));
    let description = definition.description.trim();
    let mut lines: Vec<String> = description
        .lines()
        .map(|line| line.trim().to_owned())
        .collect();
    for (name, schema) in properties(definition) {
        if let Some(words) = schema.get("description").and_then(Value::as_str) {
            let words: Vec<&str> = words.split_whitespace().collect();
            lines.push(format!("{name}: {}", words.join(" ")));
        }
    }
    text.push_str(&lines.join("\n    "));
    text.push_str("\"\"\"");
    text
}

/// A tool with its signature and the beginning of its description, on one line.
fn one_line(definition: &ToolDefinition) -> String {
    let first = definition.description.lines().next().unwrap_or_default();
    let first: String = first.chars().take(MAX_LINE_CHARS).collect();
    format!("{}: {first}", signature(definition))
}

/// The signature of a tool: `book_hotel(location: str, nights: int = 1) -> dict`.
fn signature(definition: &ToolDefinition) -> String {
    let required: Vec<&str> = definition
        .parameters
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let definitions = definition.parameters.get("$defs");
    let (first, later): (Vec<_>, Vec<_>) =
        properties(definition).partition(|(name, _)| required.contains(name));
    let first = first.into_iter().map(|(name, schema)| {
        let kind = type_of(schema, definitions, 0);
        format!("{name}: {kind}")
    });
    let later = later.into_iter().map(|(name, schema)| {
        let kind = type_of(schema, definitions, 0);
        let default = schema.get("default").map_or("...".to_owned(), literal);
        format!("{name}: {kind} = {default}")
    });
    let parameters: Vec<String> = first.chain(later).collect();
    let result = match &definition.result {
        Some(schema) => type_of(schema, schema.get("$defs"), 0),
        None => "str".to_owned(),
    };
    let name = python_name(definition);
    format!("{name}({}) -> {result}", parameters.join(", "))
}

/// Whether Python or the guest has a function with this name.
fn is_taken(name: &str) -> bool {
    PYTHON_BUILTINS.contains(&name) || GUEST_FUNCTIONS.contains(&name)
}

/// The name of a tool in Python. One that Python has already is reachable as `tools.NAME`.
fn python_name(definition: &ToolDefinition) -> String {
    let name = definition.name.replace('-', "_");
    if is_taken(&name) {
        format!("tools.{name}")
    } else {
        name
    }
}

fn properties(definition: &ToolDefinition) -> impl Iterator<Item = (&str, &Value)> {
    let properties = definition.parameters.get("properties");
    let properties = properties.and_then(Value::as_object).into_iter().flatten();
    properties.map(|(name, schema)| (name.as_str(), schema))
}

/// A JSON schema as a Python type.
fn type_of(schema: &Value, definitions: Option<&Value>, depth: usize) -> String {
    if depth > MAX_TYPE_DEPTH {
        return "object".to_owned();
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return match definitions.and_then(|definitions| definitions.get(name)) {
            Some(target) => type_of(target, definitions, depth + 1),
            None => "dict".to_owned(),
        };
    }
    if let Some(Value::Array(choices)) = schema.get("enum") {
        let shown: Vec<String> = choices.iter().take(MAX_CHOICES).map(literal).collect();
        return format!("Literal[{}]", shown.join(", "));
    }
    let choices = schema.get("anyOf").or_else(|| schema.get("oneOf"));
    if let Some(Value::Array(choices)) = choices {
        let kinds = choices
            .iter()
            .map(|choice| type_of(choice, definitions, depth + 1));
        return union(kinds.collect());
    }
    match schema.get("type") {
        Some(Value::String(kind)) => named_type(kind, schema, definitions, depth),
        Some(Value::Array(kinds)) => {
            let kinds = kinds.iter().filter_map(Value::as_str);
            union(
                kinds
                    .map(|kind| named_type(kind, schema, definitions, depth))
                    .collect(),
            )
        }
        _ => "object".to_owned(),
    }
}

fn named_type(kind: &str, schema: &Value, definitions: Option<&Value>, depth: usize) -> String {
    match kind {
        "string" => "str".to_owned(),
        "integer" => "int".to_owned(),
        "number" => "float".to_owned(),
        "boolean" => "bool".to_owned(),
        "null" => "None".to_owned(),
        "array" => match schema.get("items") {
            Some(items @ Value::Object(_)) => {
                format!("list[{}]", type_of(items, definitions, depth + 1))
            }
            _ => "list".to_owned(),
        },
        _ => fields_of(schema, definitions, depth).unwrap_or_else(|| "dict".to_owned()),
    }
}

/// The fields of an object that the schema names: `{"name": str, "nights": int}`. `None` where it names none, or deep inside.
fn fields_of(schema: &Value, definitions: Option<&Value>, depth: usize) -> Option<String> {
    let fields = schema.get("properties")?.as_object()?;
    if fields.is_empty() || depth > MAX_FIELD_DEPTH {
        return None;
    }
    let fields: Vec<String> = fields
        .iter()
        .take(MAX_CHOICES)
        .map(|(name, schema)| format!("{name:?}: {}", type_of(schema, definitions, depth + 1)))
        .collect();
    Some(format!("{{{}}}", fields.join(", ")))
}

fn union(mut kinds: Vec<String>) -> String {
    let mut seen = Vec::new();
    kinds.retain(|kind| {
        let is_new = !seen.contains(kind);
        seen.push(kind.clone());
        is_new
    });
    kinds.join(" | ")
}

/// A JSON value as Python writes it.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(literal).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => of_map(map),
        other => other.to_string(),
    }
}

fn of_map(map: &Map<String, Value>) -> String {
    let entries: Vec<String> = map
        .iter()
        .map(|(key, value)| format!("{key:?}: {}", literal(value)))
        .collect();
    format!("{{{}}}", entries.join(", "))
}

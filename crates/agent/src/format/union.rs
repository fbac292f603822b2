//! The schema of a step: any tool, or the end of the task.

use super::Facts;
use super::next_step::COMPLETION;
use cellblock_tools::{SchemaForm, function_schema};
use serde_json::{Map, Value, json};

/// The schema of one step, and whether an endpoint can enforce all of it.
pub(super) fn union_of_tools(facts: &Facts) -> (Value, bool) {
    let mut shared = Map::new();
    let mut choices = Vec::new();
    let answer = facts.answer_schema.clone();
    let mut is_strict = answer.is_none();
    for definition in facts.registry.definitions() {
        let schema = function_schema(definition, SchemaForm::StrictWhereItFits);
        let function = &schema["function"];
        is_strict &= function["strict"] == json!(true);
        let parameters = function["parameters"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        choices.push(choice(
            &definition.name,
            &definition.description,
            parameters,
            &mut shared,
        ));
    }
    let answer = answer.unwrap_or_else(|| json!({"type": "string"}));
    let completion = json!({"type": "object", "properties": {"answer": answer}, "required": ["answer"], "additionalProperties": false});
    let completion = completion.as_object().cloned().unwrap_or_default();
    choices.push(choice(
        COMPLETION,
        "Ends the task with its answer.",
        completion,
        &mut shared,
    ));
    let mut schema = json!({
        "type": "object",
        "properties": {
            "current_state": {"type": "string"},
            "plan_remaining_steps_brief": {"type": "array", "items": {"type": "string"}},
            "task_completed": {"type": "boolean"},
            "function": {"anyOf": choices},
        },
        "required": ["current_state", "plan_remaining_steps_brief", "task_completed", "function"],
        "additionalProperties": false,
    });
    if !shared.is_empty() {
        schema["$defs"] = Value::Object(shared);
    }
    (schema, is_strict)
}

/// One tool with its arguments inline. Its definitions move to the top, under names of their own.
fn choice(
    name: &str,
    description: &str,
    mut parameters: Map<String, Value>,
    shared: &mut Map<String, Value>,
) -> Value {
    if let Some(Value::Object(definitions)) = parameters.shift_remove("$defs") {
        for (key, mut definition) in definitions {
            move_references(&mut definition, name);
            shared.insert(format!("{name}_{key}"), definition);
        }
    }
    let mut properties = Map::new();
    properties.insert("tool".to_owned(), json!({"type": "string", "enum": [name]}));
    if let Some(Value::Object(own)) = parameters.get("properties") {
        properties.extend(own.clone());
    }
    let mut required = vec![json!("tool")];
    if let Some(Value::Array(own)) = parameters.get("required") {
        required.extend(own.clone());
    }
    let mut schema = json!({
        "type": "object",
        "description": description.lines().next().unwrap_or_default(),
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    move_references(&mut schema, name);
    schema
}

fn move_references(value: &mut Value, name: &str) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(target)) = map.get_mut("$ref")
                && let Some(key) = target.strip_prefix("#/$defs/")
            {
                *target = format!("#/$defs/{name}_{key}");
            }
            map.values_mut()
                .for_each(|inner| move_references(inner, name));
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| move_references(item, name)),
        _ => {}
    }
}

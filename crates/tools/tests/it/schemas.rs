//! T1 to T4: what a tool looks like to a model.

use crate::support::{WeatherQueryTool, runner, wait};
use cellblock_tools::{
    Call, Context, DynamicTool, Output, Registry, RegistryError, SchemaForm, Tool, ToolDefinition,
    ToolError, ToolFuture,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A tree.
#[derive(Deserialize, JsonSchema)]
struct Grow {
    /// What it is called.
    name: String,
    #[serde(default)]
    branches: Vec<Grow>,
}

struct GrowTreeTool;

impl Tool for GrowTreeTool {
    type Parameters = Grow;
    type Output = usize;

    async fn call(&self, tree: Grow, _: &Context) -> Result<usize, ToolError> {
        fn count(tree: &Grow) -> usize {
            tree.name.len().min(1) + tree.branches.iter().map(count).sum::<usize>()
        }
        Ok(count(&tree))
    }
}

fn schema(tool: impl Tool, form: SchemaForm) -> Value {
    let registry = Registry::builder().tool(tool).build().unwrap();
    registry.schemas(form).remove(0)
}

#[test]
fn t2_the_name_is_that_of_the_type() {
    assert_eq!(
        runner(WeatherQueryTool).registry().names(),
        ["weather_query"]
    );
    assert_eq!(runner(GrowTreeTool).registry().names(), ["grow_tree"]);
}

#[test]
fn t3_the_schema_is_in_the_form_of_openai_and_takes_nothing_else() {
    assert_eq!(
        schema(WeatherQueryTool, SchemaForm::Plain),
        json!({"type": "function", "function": {
            "name": "weather_query",
            "description": "The weather of the next days.",
            "parameters": {
                "type": "object",
                "properties": {
                    "tool_call_purpose": {"type": "string"},
                    "city": {"description": "Where.", "type": "string"},
                    "days": {"description": "How many days.", "type": "integer", "minimum": 1, "maximum": 14, "default": 3},
                    "unit": {"description": "The scale.", "$ref": "#/$defs/Unit", "default": "C"},
                    "near": {"description": "Further places.", "type": ["array", "null"], "items": {"$ref": "#/$defs/Place"}},
                },
                "required": ["tool_call_purpose", "city"],
                "additionalProperties": false,
                "$defs": {
                    "Unit": {"type": "string", "enum": ["C", "F"]},
                    "Place": {
                        "description": "A place on a map.",
                        "type": "object",
                        "properties": {"x": {"type": "number"}, "y": {"type": "number"}, "exact": {"type": ["boolean", "null"]}},
                        "additionalProperties": false,
                        "required": ["x", "y"],
                    },
                },
            },
        }})
    );
}

#[test]
fn t3_properties_stand_in_the_order_of_the_type_and_the_purpose_comes_first() {
    let text = schema(WeatherQueryTool, SchemaForm::Plain).to_string();
    let at = |name: &str| text.find(&format!("\"{name}\":{{")).unwrap();
    assert!(
        at("tool_call_purpose") < at("city") && at("city") < at("days") && at("days") < at("unit")
    );
}

#[test]
fn t3_recursive_types_refer_to_a_definition() {
    let plain = schema(GrowTreeTool, SchemaForm::Plain);
    let branches = &plain["function"]["parameters"]["properties"]["branches"];
    let target = branches["items"]["$ref"].as_str().unwrap();
    assert!(target.starts_with("#/$defs/"), "{plain}");
    assert!(
        plain["function"]["parameters"]
            .pointer(&target[1..])
            .is_some()
    );
    let runner = runner(GrowTreeTool);
    let tree = json!({"name": "a", "branches": [{"name": "b", "branches": [{"name": "c"}]}]});
    let answer = wait(runner.call(Call::by_user("grow_tree", tree)));
    assert_eq!(answer.outcome, Ok(Output::json(3)));
}

#[test]
fn t3_in_a_strict_schema_all_is_required_and_what_was_optional_may_be_null() {
    let strict = schema(WeatherQueryTool, SchemaForm::StrictWhereItFits);
    assert_eq!(strict["function"]["strict"], true);
    let parameters = &strict["function"]["parameters"];
    assert_eq!(
        parameters["required"],
        json!(["tool_call_purpose", "city", "days", "unit", "near"])
    );
    assert_eq!(parameters["additionalProperties"], false);
    assert_eq!(
        parameters["properties"]["days"],
        json!({"description": "How many days.", "type": ["integer", "null"], "minimum": 1, "maximum": 14})
    );
    assert_eq!(
        parameters["properties"]["unit"],
        json!({"description": "The scale.", "anyOf": [{"$ref": "#/$defs/Unit"}, {"type": "null"}]})
    );
    assert_eq!(
        parameters["$defs"]["Place"]["required"],
        json!(["x", "y", "exact"])
    );
}

#[test]
fn t3_the_nulls_of_a_strict_call_are_read_as_absent() {
    let runner = runner(WeatherQueryTool);
    let arguments = json!({"city": "Oslo", "days": null, "unit": null, "near": null});
    let answer = wait(runner.call(Call::by_user("weather_query", arguments)));
    assert_eq!(answer.outcome.unwrap().structured.unwrap()["days"], 3);
}

/// A tool with whatever schema.
struct Foreign(&'static str, Value);

impl DynamicTool for Foreign {
    fn definition(&self) -> ToolDefinition {
        let parameters: Map<String, Value> = self.1.as_object().cloned().unwrap();
        ToolDefinition::new(self.0, "From elsewhere.", parameters)
    }

    fn invoke(self: Arc<Self>, arguments: Map<String, Value>, _: Context) -> ToolFuture {
        Box::pin(async move { Ok(Output::json(arguments)) })
    }
}

fn foreign(name: &'static str, schema: Value) -> Result<Registry, RegistryError> {
    Registry::builder()
        .dynamic(Arc::new(Foreign(name, schema)))
        .build()
}

#[test]
fn t3_what_does_not_fit_the_strict_subset_is_sent_plain() {
    for property in [
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
        json!({"type": "string", "minLength": 3}),
        json!({"type": "object"}),
        json!({}),
    ] {
        let schema = json!({"type": "object", "properties": {"p": property}, "required": ["p"]});
        let registry = foreign("foreign", schema).unwrap();
        let sent = registry.schemas(SchemaForm::StrictWhereItFits).remove(0);
        assert_eq!(sent["function"].get("strict"), None, "{property}");
        assert_eq!(sent["function"]["parameters"]["properties"]["p"], property);
        assert_eq!(
            sent["function"]["parameters"]["additionalProperties"],
            false
        );
    }
}

#[test]
fn t1_duplicate_names_are_refused_when_they_are_registered() {
    let twice = Registry::builder()
        .tool(WeatherQueryTool)
        .tool(WeatherQueryTool);
    let error = twice.build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "two tools are called `weather_query`; rename one of them"
    );
}

#[test]
fn b7_names_that_would_be_one_in_python_are_refused_when_they_are_registered() {
    let schema = json!({"type": "object"});
    let both = Registry::builder()
        .dynamic(Arc::new(Foreign("get-it", schema.clone())))
        .dynamic(Arc::new(Foreign("get_it", schema)));
    assert_eq!(
        both.build().unwrap_err().to_string(),
        "the tools `get-it` and `get_it` would both be called `get_it` in Python; rename one of them"
    );
}

#[test]
fn a_name_or_a_schema_that_cannot_be_used_is_refused_when_it_is_registered() {
    assert_eq!(
        foreign("no good", json!({"type": "object"}))
            .unwrap_err()
            .to_string(),
        "a tool cannot be called \"no good\": 1 to 64 letters, digits, `_` or `-` are needed"
    );
    let error = foreign(
        "odd",
        json!({"type": "object", "properties": {"a": {"type": "nonsense"}}}),
    );
    assert!(
        error
            .unwrap_err()
            .to_string()
            .starts_with("the tool `odd`: its schema cannot be used: "),
    );
    // Nothing is fetched from anywhere.
    let error = foreign("far", json!({"$ref": "http://127.0.0.1:1/schema"})).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the tool `far`: its schema cannot be used: ")
    );
}

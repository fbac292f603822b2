//! What each format makes of a good reply, and what the model sees of what came of it.

use crate::support::{GetSecretTool, facts, facts_with};
use cellblock_agent::{Action, Format, Observation, PartialCall, PartialReply, Turn};
use cellblock_model::{FunctionCall, Message, Reply, Request, ResponseFormat, ToolCall};
use serde_json::{Value, json};

fn read(format: Format, reply: &Reply) -> Turn {
    format.implementation().parse(reply, &facts()).unwrap()
}

fn code(code: &str) -> Vec<Action> {
    vec![Action::Code(code.to_owned())]
}

fn observation(text: &str) -> Observation {
    Observation {
        text: text.to_owned(),
        ..Observation::default()
    }
}

fn history(format: Format, reply: &Reply, observations: &[&str]) -> Vec<Value> {
    let facts = facts();
    let format = format.implementation();
    let turn = format.parse(reply, &facts).unwrap();
    let observations: Vec<Observation> =
        observations.iter().map(|text| observation(text)).collect();
    let mut messages = vec![format.assistant_message(reply, &turn, 3)];
    messages.extend(format.result_messages(&turn, 3, &observations, &facts));
    messages
        .iter()
        .map(|message| serde_json::to_value(message).unwrap())
        .collect()
}

#[test]
fn a_reply_without_an_action_is_the_answer() {
    for format in [Format::Tools, Format::Xml, Format::Markdown] {
        let turn = read(format, &Reply::text("It is 21386.41."));
        assert_eq!(turn.answer(), Some(&json!("It is 21386.41.")), "{format}");
    }
}

#[test]
fn native_calls_are_run_in_order_the_old_form_first() {
    let reply = Reply {
        text: "I look at both.".to_owned(),
        function_call: Some(FunctionCall {
            name: "list_files".to_owned(),
            arguments: "{}".to_owned(),
        }),
        tool_calls: vec![ToolCall {
            id: "a".to_owned(),
            name: "compute".to_owned(),
            arguments: r#"{"code":"1+1"}"#.to_owned(),
        }],
        ..Reply::default()
    };
    let names: Vec<String> = read(Format::Tools, &reply)
        .actions
        .into_iter()
        .map(|action| match action {
            Action::Call(call) => call.name,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(names, ["list_files", "compute"]);
    assert_eq!(
        history(Format::Tools, &reply, &["no files", "2"]),
        [
            json!({"role": "assistant", "content": "I look at both.",
                "function_call": {"name": "list_files", "arguments": "{}"},
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "compute", "arguments": "{\"code\":\"1+1\"}"}}]}),
            json!({"role": "function", "name": "list_files", "content": "no files"}),
            json!({"role": "tool", "tool_call_id": "a", "content": "2"}),
        ]
    );
}

#[test]
fn a_function_call_to_a_tool_that_is_not_there_is_answered_by_the_user() {
    let reply = Reply {
        function_call: Some(FunctionCall {
            name: "search".to_owned(),
            arguments: "{}".to_owned(),
        }),
        ..Reply::default()
    };
    let answer = &history(Format::Tools, &reply, &["?"])[1];
    assert_eq!(answer["role"], "user");
    let text = answer["content"].as_str().unwrap();
    assert!(
        text.starts_with(
            "function_call is not available here; use tool_calls. Tools: execute_python_code"
        ),
        "{text}"
    );
}

#[test]
fn what_a_model_invents_after_its_code_does_not_stay_in_the_history() {
    let replies = [
        (
            Format::Markdown,
            "I add.\n```python\nprint(17 + 25)\n```\nOutput: 43\nIt is 43.",
        ),
        (
            Format::Xml,
            "I add.\n<execution-code>\nprint(17 + 25)\n</execution-code>\nIt is 43.",
        ),
        (
            Format::Json,
            "{\"thought\": \"add\", \"action\": \"execute_code\", \"code\": \"print(17 + 25)\"}\nEXECUTION_RESULT: 43\n{\"thought\": \"43\", \"action\": \"provide_answer\", \"final_answer\": \"43\"}",
        ),
        (
            Format::Markdown,
            "Thought: add\nAction: python\nAction Input: print(17 + 25)\nObservation: 43\nFinal Answer: 43",
        ),
        (
            Format::Tools,
            "I add.\n```python\nprint(17 + 25)\n```\nIt is 43.",
        ),
    ];
    for (format, text) in replies {
        let messages = history(format, &Reply::text(text), &["42"]);
        let kept = serde_json::to_string(&messages).unwrap();
        assert!(
            kept.contains("print(17 + 25)") && !kept.contains("43"),
            "{format}: {kept}"
        );
    }
}

#[test]
fn formats_of_plain_text_end_a_reply_where_a_model_invents_a_result() {
    for format in [Format::Markdown, Format::Xml, Format::Json] {
        let mut request = Request::default();
        format
            .implementation()
            .prepare_request(&mut request, &facts());
        assert!(
            request.stop.contains(&"\nObservation:".to_owned()),
            "{format}"
        );
        assert!(request.stop.len() <= 4, "{format}");
    }
}

#[test]
fn native_calls_with_harmless_variations_are_taken() {
    let code = json!({"python_code_snippet": "print(1)", "tool_call_purpose": "not given"});
    let double = json!(json!({"python_code_snippet": "print(1)"}).to_string()).to_string();
    let calls = [
        (
            "functions.execute_python_code",
            r#"{"python_code_snippet": "print(1)"}"#,
            &code,
        ),
        ("python", r#"{"code": "print(1)"}"#, &code),
        ("execute_python_code", double.as_str(), &code),
        ("code_interpreter", r#""print(1)""#, &code),
        (
            "list_files",
            "null",
            &json!({"tool_call_purpose": "not given"}),
        ),
    ];
    for (name, arguments, expected) in calls {
        let reply = Reply::calls(vec![ToolCall {
            id: "a".to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        }]);
        let turn = read(Format::Tools, &reply);
        let Some(Action::Call(call)) = turn.actions.first() else {
            panic!("{turn:?}");
        };
        let cellblock_tools::Arguments::Object(got) = &call.arguments else {
            panic!("{call:?}");
        };
        assert_eq!(&Value::Object(got.clone()), expected, "{name}");
        assert!(facts().registry.get(&call.name).is_some(), "{name}");
    }
}

#[test]
fn json_runs_code_and_keeps_the_reply_as_it_came() {
    let text = r#"{"thought": "add", "action": "execute_code", "code": "print(1 + 1)", "final_answer": null}"#;
    let reply = Reply::text(text);
    let expected = Turn {
        thought: "add".to_owned(),
        actions: code("print(1 + 1)"),
        repairs: vec![],
        ..Turn::default()
    };
    assert_eq!(read(Format::Json, &reply), expected);
    assert_eq!(
        history(Format::Json, &reply, &["2"]),
        [
            json!({"role": "assistant", "content": text}),
            json!({"role": "system", "content": "EXECUTION_RESULT: 2"}),
        ]
    );
}

#[test]
fn an_endpoint_that_refuses_late_system_messages_gets_the_result_from_the_user() {
    let mut facts = facts();
    facts.capabilities.late_system_messages = false;
    let format = Format::Json.implementation();
    let messages = format.result_messages(&Turn::default(), 1, &[observation("2")], &facts);
    assert_eq!(messages, [Message::user("EXECUTION_RESULT: 2")]);
}

#[test]
fn continue_debugging_is_read_as_debug_error_and_an_answer_beside_code_waits() {
    let text = r#"{"action": "continue_debugging", "code": "x = 1", "final_answer": "42"}"#;
    assert_eq!(
        read(Format::Json, &Reply::text(text)).actions,
        code("x = 1")
    );
}

#[test]
fn json_says_which_field_is_wrong() {
    let complaint = |text: &str| {
        let format = Format::Json.implementation();
        format.parse(&Reply::text(text), &facts()).unwrap_err().0
    };
    assert_eq!(
        [
            complaint(r#"{"thought": "?", "action": "execute_code"}"#),
            complaint(r#"{"action": "provide_answer", "final_answer": null}"#),
            complaint(r#"{"action": "think", "code": "1"}"#),
            complaint("I do not know"),
        ],
        [
            "the field `code` is required for the action execute_code, and it is missing or empty",
            "the field `final_answer` is required for the action provide_answer, and it is missing or empty",
            "there is no action \"think\": the actions are execute_code, debug_error and provide_answer",
            "there is no JSON object in the reply. Reply with exactly one JSON object with the fields thought, action, code and final_answer",
        ]
    );
}

#[test]
fn xml_has_packages_and_code_and_is_no_xml() {
    let text = "I need numpy.\n<pip-dependencies-to-install>numpy, pandas==2.0</pip-dependencies-to-install>\n\
                <execution-code>\nif 1 < 2 and 'a' > '<b>':\n    print('&')\n</execution-code>";
    let turn = read(Format::Xml, &Reply::text(text));
    assert_eq!(
        turn,
        Turn {
            thought: "I need numpy.".to_owned(),
            actions: vec![
                Action::Dependencies(vec!["numpy".to_owned(), "pandas==2.0".to_owned()]),
                Action::Code("if 1 < 2 and 'a' > '<b>':\n    print('&')".to_owned()),
            ],
            repairs: vec![],
            ..Turn::default()
        }
    );
}

#[test]
fn every_python_block_of_markdown_is_a_cell_and_other_blocks_are_not() {
    let text = "First:\n```python\nx = 1\n```\nlike\n```bash\nrm -rf x\n```\nthen\n~~~py\nprint(x)\n~~~\nand\n<code>\nx += 1\n</code>";
    let turn = read(Format::Markdown, &Reply::text(text));
    let cells = ["x = 1", "print(x)", "x += 1"].map(|code| Action::Code(code.to_owned()));
    assert_eq!(
        (turn.thought.as_str(), turn.actions, turn.repairs),
        ("First:", cells.to_vec(), vec![])
    );
    assert_eq!(
        history(Format::Markdown, &Reply::text(text), &["a", "b", "c"])[1],
        json!({"role": "user", "content": "[1/3]\na\n[2/3]\nb\n[3/3]\nc"})
    );
}

#[test]
fn code_in_thoughts_is_not_run() {
    let text = "<think>maybe\n```python\n1/0\n```\n</think>It is 4.";
    assert_eq!(
        read(Format::Markdown, &Reply::text(text)).answer(),
        Some(&json!("It is 4."))
    );
}

#[test]
fn a_next_step_enters_the_history_as_a_call() {
    let text = r#"{"current_state": "I need the sum", "plan_remaining_steps_brief": ["add"], "task_completed": false,
        "function": {"tool": "compute", "code": "1+1", "description": "add"}}"#;
    assert_eq!(
        history(Format::NextStep, &Reply::text(text), &["2"]),
        [
            json!({"role": "assistant", "content": "Thought: I need the sum", "tool_calls": [{"id": "step_3", "type": "function",
                "function": {"name": "compute", "arguments": "{\"code\":\"1+1\",\"description\":\"add\",\"tool_call_purpose\":\"I need the sum\"}"}}]}),
            json!({"role": "tool", "tool_call_id": "step_3", "content": "2"}),
        ]
    );
    let end = r#"{"current_state": "done", "plan_remaining_steps_brief": [], "task_completed": true,
        "function": {"tool": "report_task_completion", "answer": "2"}}"#;
    assert_eq!(
        read(Format::NextStep, &Reply::text(end)).answer(),
        Some(&json!("2"))
    );
}

#[test]
fn the_schema_of_a_step_holds_every_tool_and_is_a_schema() {
    let facts = facts_with(|registry| registry.tool(GetSecretTool));
    let mut request = Request::default();
    Format::NextStep
        .implementation()
        .prepare_request(&mut request, &facts);
    assert_eq!(
        request.response_format,
        ResponseFormat::Text,
        "an endpoint without schemas gets none"
    );
    let mut able = facts.clone();
    able.capabilities.json_schema = true;
    Format::NextStep
        .implementation()
        .prepare_request(&mut request, &able);
    let ResponseFormat::JsonSchema { schema, .. } = request.response_format else {
        panic!("no schema");
    };
    let choices = schema["properties"]["function"]["anyOf"]
        .as_array()
        .unwrap();
    assert_eq!(choices.len(), facts.registry.names().len() + 1);
    let validator = jsonschema::validator_for(&schema).unwrap();
    let step = |function: Value| {
        validator.is_valid(&json!({"current_state": "", "plan_remaining_steps_brief": [], "task_completed": false, "function": function}))
    };
    assert!(step(
        json!({"tool": "get_secret", "tool_call_purpose": "to know it"})
    ));
    assert!(step(
        json!({"tool": "report_task_completion", "answer": "2"})
    ));
    let plan = json!({"core_goal": "g", "tree_nodes": [{"task_name": "a", "children": [{"task_name": "b"}]}], "next_action": {}});
    assert!(step(
        json!({"tool": "recursive_plan_tree_todo", "tool_call_purpose": "plan", "recursive_plan_tree": plan})
    ));
    assert!(!step(
        json!({"tool": "get_sekret", "tool_call_purpose": "to know it"})
    ));
}

#[test]
fn thought_and_code_are_seen_while_the_reply_comes() {
    let growing = |text: &str| PartialReply {
        text: text.to_owned(),
        calls: vec![],
    };
    let seen = |format: Format, text: &str| {
        let partial = format.implementation().preview(&growing(text));
        (partial.thought, partial.code)
    };
    let both = |thought: &str, code: &str| (thought.to_owned(), code.to_owned());
    assert_eq!(seen(Format::Json, r#"{"thought": "I ad"#), both("I ad", ""));
    assert_eq!(
        seen(
            Format::Json,
            r#"{"thought": "I add", "action": "execute_code", "code": "x = 1\npri"#
        ),
        both("I add", "x = 1\npri")
    );
    assert_eq!(
        seen(Format::Xml, "So.\n<execution-code>\nx ="),
        both("So.", "x =")
    );
    assert_eq!(
        seen(Format::Markdown, "So.\n```python\nx = 1\ny"),
        both("So.", "x = 1\ny")
    );
    let calls = PartialReply {
        text: "So.".to_owned(),
        calls: vec![PartialCall {
            name: "execute_python_code".to_owned(),
            arguments: r#"{"python_code_snippet":"x = 1\ny"#.to_owned(),
        }],
    };
    let partial = Format::Tools.implementation().preview(&calls);
    assert_eq!((partial.thought, partial.code), both("So.", "x = 1\ny"));
}

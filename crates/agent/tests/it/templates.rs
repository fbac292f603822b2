//! Questions that are called like functions.

use crate::support::{calls, keeper, python, runs, scripted, wait};
use cellblock_agent::{Agent, CancellationToken, Format, RunEvent, RunStatus, Template};
use cellblock_model::{Reply, ScriptedModel, Usage};
use serde_json::{Map, Value, json};
use std::sync::Arc;

const OUTLIERS: &str = include_str!("../../examples/outlier_count.md");

fn arguments(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[test]
fn outlier_count_gives_two() {
    let template = Template::from_markdown(OUTLIERS).unwrap();
    let code = "from statistics import mean, pstdev\nm, s = mean(readings), pstdev(readings)\nprint(sum(abs(r - m) > limit * s for r in readings))";
    let agent = scripted([runs(Format::Tools, code), Reply::text("2")])
        .build()
        .unwrap();
    let readings = arguments(json!({"readings": [12, 19, 23, 31, 8, 27]}));
    let (observer, _) = keeper();
    let outcome =
        wait(agent.run_template(&template, readings, observer, CancellationToken::new())).unwrap();
    assert_eq!(outcome.answer, Some(json!(2)));
    assert_eq!(
        outcome.steps[0].actions[0].result.as_ref().unwrap().stdout,
        "2\n"
    );
}

#[test]
fn arguments_are_checked_before_anything_runs() {
    let template = Template::new("?")
        .name("t")
        .param::<Vec<f64>>("readings")
        .returns::<u32>();
    let agent = scripted([]).build().unwrap();
    let problem = |given: Value| {
        let (observer, _) = keeper();
        wait(agent.run_template(
            &template,
            arguments(given),
            observer,
            CancellationToken::new(),
        ))
        .unwrap_err()
        .to_string()
    };
    assert_eq!(
        problem(json!({})),
        "the template `t` needs the argument `readings`"
    );
    assert_eq!(
        problem(json!({"reading": 1, "readings": []})),
        "the template `t` has no parameter `reading`; it has readings"
    );
    assert_eq!(
        problem(json!({"readings": "x"})),
        "the argument `readings` of the template `t` does not fit: \"x\" is not of type \"array\""
    );
}

#[test]
fn code_is_off_unless_asked_for() {
    let model = Arc::new(ScriptedModel::new([Reply::text("\"blue\"")]));
    let agent = Agent::builder()
        .shared_model(model.clone())
        .executor(python())
        .build()
        .unwrap();
    let template = Template::new("Which colour has {{thing}}?")
        .param::<String>("thing")
        .returns::<String>();
    let (observer, _) = keeper();
    let outcome = wait(agent.run_template(
        &template,
        arguments(json!({"thing": "the sky"})),
        observer,
        CancellationToken::new(),
    ))
    .unwrap();
    assert_eq!(outcome.answer, Some(json!("\"blue\"")));
    let request = &model.requests()[0];
    assert!(request.tools.is_empty());
    let system = request.messages[0].text().to_lowercase();
    for word in ["code", "python", "session", "execut"] {
        assert!(!system.contains(word), "`{word}` in: {system}");
    }
    assert_eq!(
        request.messages[1].text(),
        "Which colour has the sky?\n\nGiven:\nthing = the sky"
    );
}

/// R13: a nested run starts from its own scope, sees nothing of its caller, and its caller nothing of it.
#[test]
fn a_template_has_its_own_scope_and_is_called_like_a_tool() {
    let inner = Template::new("Is x there?")
        .name("look")
        .param::<u32>("n")
        .scope("base", 10)
        .returns::<bool>()
        .with_code();
    let replies = [
        runs(Format::Tools, "x = 1"),
        calls("look", json!({"tool_call_purpose": "to see", "n": 5})),
        runs(Format::Tools, "y = base + n\nprint('x' in globals(), y)"),
        Reply::text("false"),
        runs(
            Format::Tools,
            "print('y' in globals(), 'base' in globals(), x)",
        ),
        Reply::text("done"),
    ];
    let usage = Usage {
        input_tokens: 10,
        output_tokens: 1,
        ..Usage::default()
    };
    let replies = replies.map(|reply| Reply { usage, ..reply });
    let (observer, kept) = keeper();
    let agent = scripted(replies).template(inner).build().unwrap();
    let outcome = wait(agent.run_observed("?", observer, CancellationToken::new())).unwrap();
    assert_eq!(outcome.status, RunStatus::Answered);
    let printed = |step: usize| outcome.steps[step].actions[0].text.clone();
    assert_eq!(printed(1), "false");
    assert!(printed(2).contains("False False 1"), "{}", printed(2));
    assert_eq!(
        outcome.usage.total(),
        66,
        "what was called inside is counted"
    );
    let inside: Vec<String> = kept
        .lock()
        .unwrap()
        .iter()
        .filter_map(|event| match event {
            RunEvent::Nested { name, inner } => match inner.as_ref() {
                RunEvent::Done { done, .. } => {
                    Some(format!("{name}: {}", done.result.as_ref()?.stdout))
                }
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!(inside, ["look: False 15\n"]);
}

#[test]
fn templates_that_call_each_other_for_ever_come_to_an_end() {
    let again = Template::new("Again.").name("again");
    let model = ScriptedModel::from_fn(|request, _| {
        let is_offered = request
            .tools
            .iter()
            .any(|tool| tool["function"]["name"] == "again");
        let has_result = request
            .messages
            .iter()
            .any(|message| matches!(message, cellblock_model::Message::Tool { .. }));
        Ok(if is_offered && !has_result {
            calls("again", json!({"tool_call_purpose": "more"}))
        } else {
            Reply::text("deep")
        })
    });
    let agent = Agent::builder()
        .model(model)
        .executor(python())
        .template(again)
        .build()
        .unwrap();
    assert_eq!(wait(agent.run("?")).unwrap().answer_text(), "deep");
}

#[test]
fn a_file_that_is_no_template_says_why() {
    let problem = |text: &str| Template::from_markdown(text).unwrap_err().to_string();
    assert_eq!(
        problem("# hi"),
        "the template: it must begin with front matter: `+++`, lines of TOML, `+++`"
    );
    assert_eq!(
        problem("+++\nname = \"x\"\n+++\n"),
        "the template: there is no question below the front matter"
    );
    assert!(problem("+++\nnam = 1\n+++\nq").contains("unknown field `nam`"));
    assert!(
        problem("+++\nname = \"x\"\n[params]\na = \"floats\"\n+++\nq")
            .contains("there is no type \"floats\"")
    );
}

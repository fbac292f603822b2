//! A run that was cut off, wherever that was, goes on from its events.

use crate::support::{ProvideAnswerTool, keeper, wait};
use cellblock_agent::{
    Agent, AgentError, CancellationToken, NoopExecutor, Prompt, RunEvent, RunStatus, UnfinishedRun,
};
use cellblock_model::{Reply, ScriptedModel, ToolCall};
use serde_json::json;
use std::sync::Arc;

fn call(id: &str, answer: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: "provide_answer".to_owned(),
        arguments: json!({"tool_call_purpose": "to tell", "answer": answer}).to_string(),
    }
}

/// Two calls at once, a reply that cannot be read, a plan, and the answer.
fn replies() -> Vec<Reply> {
    let plan = ToolCall {
        id: "c".to_owned(),
        name: "recursive_plan_tree_todo".to_owned(),
        arguments: json!({"tool_call_purpose": "to plan", "recursive_plan_tree": {
            "core_goal": "count", "tree_nodes": [{"task_name": "look"}], "next_action": {}}})
        .to_string(),
    };
    vec![
        Reply::calls(vec![call("a", "one"), call("b", "two")]),
        Reply::text(""),
        Reply::calls(vec![plan]),
        Reply::text("two"),
    ]
}

fn agent(model: &Arc<ScriptedModel>, tool: &ProvideAnswerTool) -> Agent {
    let builder = Agent::builder()
        .shared_model(model.clone())
        .executor(NoopExecutor)
        .prompt(Prompt::DeepResearch)
        .tool(tool.clone());
    builder.build().unwrap()
}

#[test]
fn wherever_a_run_was_cut_off_it_ends_as_it_would_have() {
    let (model, tool) = (
        Arc::new(ScriptedModel::new(replies())),
        ProvideAnswerTool::default(),
    );
    let (observer, kept) = keeper();
    let run = agent(&model, &tool);
    let whole = wait(run.run_observed("How many?", observer, CancellationToken::new())).unwrap();
    assert_eq!(whole.answer, Some(json!("two")));
    let events = kept.lock().unwrap().clone();

    for length in 1..events.len() {
        let known = &events[..length];
        let count = |is: fn(&RunEvent) -> bool| known.iter().filter(|event| is(event)).count();
        let replied = count(|event| matches!(event, RunEvent::Replied { .. }));
        let called = count(
            |event| matches!(event, RunEvent::Recorded { call, .. } if call.name == "provide_answer"),
        );
        let rest = Arc::new(ScriptedModel::new(replies().into_iter().skip(replied)));
        let tool = ProvideAnswerTool::default();
        let mut conversation =
            agent(&rest, &tool).resume(UnfinishedRun::from_events(known.to_vec()).unwrap());
        let (observer, _) = keeper();
        let outcome = wait(conversation.resume(observer, CancellationToken::new())).unwrap();

        let told = format!("cut off after {length}: {:?}", known.last());
        assert_eq!(
            (outcome.status, &outcome.answer, outcome.usage),
            (RunStatus::Answered, &whole.answer, whole.usage),
            "{told}"
        );
        assert_eq!(
            replied + rest.requests().len(),
            4,
            "nothing is asked twice; {told}"
        );
        assert_eq!(
            called + tool.0.lock().unwrap().len(),
            2,
            "nothing is called twice; {told}"
        );
        if let Some(last) = rest.requests().last() {
            assert_eq!(Some(last), model.requests().last(), "{told}");
        }
        assert_eq!(outcome.steps.len(), whole.steps.len(), "{told}");
    }
}

#[test]
fn a_conversation_that_was_not_cut_off_has_nothing_to_go_on_with() {
    let model = Arc::new(ScriptedModel::new([]));
    let mut conversation = agent(&model, &ProvideAnswerTool::default()).conversation();
    let outcome = wait(conversation.resume(Arc::new(|_| {}), CancellationToken::new()));
    assert!(matches!(outcome, Err(AgentError::NothingToResume)));
    assert!(UnfinishedRun::from_events([]).is_none());
}

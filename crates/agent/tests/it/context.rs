//! The budget of the conversation.

use crate::support::{runs, wait};
use cellblock_agent::{Agent, CancellationToken, Format, Prompt, RunEvent, RunLimits, RunStatus};
use cellblock_model::{
    AssistantMessage, Capabilities, Message, Reply, ScriptedModel, estimate_request,
};
use std::sync::{Arc, Mutex};

/// Every call has its answer directly after it.
fn pairs_are_whole(messages: &[Message]) -> bool {
    let mut open: Vec<String> = Vec::new();
    for message in messages {
        match message {
            Message::Tool { tool_call_id, .. } => {
                match open.iter().position(|id| id == tool_call_id) {
                    Some(index) => drop(open.remove(index)),
                    None => return false,
                }
            }
            _ if !open.is_empty() => return false,
            Message::Assistant(AssistantMessage { tool_calls, .. }) => {
                open = tool_calls.iter().map(|call| call.id.clone()).collect();
            }
            _ => {}
        }
    }
    open.is_empty()
}

#[test]
fn two_hundred_rounds_of_fifty_kilobytes_stay_within_the_budget() {
    const CONTEXT: u64 = 24_000;
    for format in [Format::Tools, Format::Json] {
        let model = Arc::new(
            ScriptedModel::from_fn(move |_, index| {
                Ok(match index {
                    200 => crate::support::answers(format, "done"),
                    100 => runs(format, "open('result.csv', 'w').write('1')\nwanted = 7\nraise ValueError('a dead end')"),
                    _ => runs(format, &format!("print('{index:03} ' * 12_500)")),
                })
            })
            .with_capabilities(Capabilities { context_tokens: CONTEXT, ..Capabilities::default() }),
        );
        let limits = RunLimits {
            steps: 250,
            ..RunLimits::default()
        };
        let agent = Agent::builder()
            .shared_model(model.clone())
            .executor(crate::support::python())
            .format(format)
            .limits(limits)
            .build()
            .unwrap();
        let reported = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&reported);
        let observer = Arc::new(move |event: &RunEvent| {
            if let RunEvent::Asked { tokens, .. } = event {
                keep.lock().unwrap().push(*tokens);
            }
        });
        let run = agent.run_observed("What is the goal?", observer, CancellationToken::new());
        let outcome = wait(run).unwrap();
        assert_eq!(
            (outcome.status, outcome.steps.len()),
            (RunStatus::Answered, 200),
            "{:?}",
            outcome.message
        );
        let requests = model.requests();
        let estimated: Vec<u64> = requests.iter().map(estimate_request).collect();
        assert_eq!(*reported.lock().unwrap(), estimated);
        for (index, request) in requests.iter().enumerate() {
            let tokens = estimated[index];
            assert!(tokens <= CONTEXT, "request {index} has {tokens} tokens");
            assert!(pairs_are_whole(&request.messages), "request {index}");
            assert!(
                matches!(&request.messages[1], Message::User { .. })
                    && request.messages[1].text() == "What is the goal?"
            );
        }
        let last = requests.last().unwrap();
        assert_eq!(
            last.messages[0].text(),
            requests[0].messages[0].text(),
            "the system prompt stays whole"
        );
        let summary = last.messages[2].text();
        for kept in [
            "wanted: int 7",
            "result.csv (1 bytes)",
            "ValueError: a dead end",
        ] {
            assert!(summary.contains(kept), "{kept} is not in {summary}");
        }
        // The last result is as long as the one before it: not shortened after the fact.
        assert!(last.messages.last().unwrap().text().contains("199 199"));
    }
}

#[test]
fn the_plan_survives_in_the_summary() {
    let plan = serde_json::json!({"tool_call_purpose": "plan", "recursive_plan_tree": {"core_goal": "g", "tree_nodes": [{"task_name": "measure the moon"}], "next_action": {}}});
    let model = Arc::new(
        ScriptedModel::from_fn(move |_, index| {
            Ok(match index {
                0 => crate::support::calls("recursive_plan_tree_todo", plan.clone()),
                1..30 => runs(Format::Tools, &format!("print('{index} ' * 9000)")),
                _ => Reply::text("done"),
            })
        })
        .with_capabilities(Capabilities {
            context_tokens: 12_000,
            ..Capabilities::default()
        }),
    );
    let limits = RunLimits {
        steps: 40,
        ..RunLimits::default()
    };
    let agent = Agent::builder()
        .shared_model(model.clone())
        .executor(crate::support::python())
        .prompt(Prompt::DeepResearch)
        .limits(limits)
        .build()
        .unwrap();
    wait(agent.run("?")).unwrap();
    let summary = model.requests().last().unwrap().messages[2].text();
    assert!(summary.contains("measure the moon"), "{summary}");
}

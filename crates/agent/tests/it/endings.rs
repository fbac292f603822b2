//! Every way in which a run can end.

use crate::support::{answers, calls, keeper, runs, scripted, wait};
use cellblock_agent::{
    Agent, AgentError, CancellationToken, Format, Outcome, RunEvent, RunLimits, RunStatus,
};
use cellblock_model::{Capabilities, ModelError, Prices, Reply, ScriptedModel, Usage};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A model that never comes to an end.
fn restless(usage: Usage) -> ScriptedModel {
    ScriptedModel::from_fn(move |_, index| {
        Ok(Reply {
            usage,
            ..runs(Format::Markdown, &format!("print({index})"))
        })
    })
}

fn end(model: ScriptedModel, limits: RunLimits) -> Outcome {
    let agent = Agent::builder()
        .model(model)
        .executor(crate::support::python())
        .format(Format::Markdown)
        .limits(limits)
        .build()
        .unwrap();
    wait(agent.run("?")).unwrap()
}

fn told(outcome: &Outcome) -> (RunStatus, &str) {
    (
        outcome.status,
        outcome.message.as_deref().unwrap_or_default(),
    )
}

#[test]
fn steps_run_out_and_what_was_reached_is_there() {
    let outcome = end(
        restless(Usage::default()),
        RunLimits {
            steps: 3,
            ..RunLimits::default()
        },
    );
    assert_eq!(
        told(&outcome),
        (RunStatus::MaxSteps, "there was no answer after 3 steps")
    );
    assert_eq!((outcome.steps.len(), outcome.answer.is_none()), (3, true));
    assert!(outcome.reached.unwrap().contains("\n2"));
}

#[test]
fn tokens_and_money_run_out() {
    let usage = Usage {
        input_tokens: 900,
        output_tokens: 100,
        ..Usage::default()
    };
    let outcome = end(
        restless(usage),
        RunLimits {
            tokens: Some(2_500),
            ..RunLimits::default()
        },
    );
    assert_eq!(
        told(&outcome),
        (
            RunStatus::MaxTokens,
            "3000 tokens were used, and 2500 are allowed"
        )
    );
    let prices = Prices {
        input: 10.0,
        cached_input: None,
        output: 10.0,
    };
    let capabilities = Capabilities {
        prices: Some(prices),
        ..Capabilities::default()
    };
    let outcome = end(
        restless(usage).with_capabilities(capabilities),
        RunLimits {
            cost: Some(0.015),
            ..RunLimits::default()
        },
    );
    assert_eq!(
        told(&outcome),
        (RunStatus::MaxCost, "it cost 0.0200, and 0.015 is allowed")
    );
}

#[test]
fn time_runs_out_in_the_middle_of_a_cell() {
    let model = ScriptedModel::new([runs(
        Format::Markdown,
        "print('begun', flush=True)\nwhile True: pass",
    )]);
    let begun = Instant::now();
    let outcome = end(
        model,
        RunLimits {
            time: Some(Duration::from_secs(2)),
            ..RunLimits::default()
        },
    );
    assert_eq!(
        told(&outcome),
        (RunStatus::MaxTime, "there was no answer within 2 s")
    );
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn whoever_holds_the_token_ends_the_run() {
    let agent = scripted([runs(Format::Tools, "while True: pass")])
        .build()
        .unwrap();
    let token = CancellationToken::new();
    let (observer, kept) = keeper();
    let stop = token.clone();
    let watcher: cellblock_agent::Observer = Arc::new(move |event| {
        observer(event);
        if matches!(event, RunEvent::Code { .. }) {
            stop.cancel();
        }
    });
    let outcome = wait(agent.run_observed("?", watcher, token)).unwrap();
    assert_eq!(
        told(&outcome),
        (RunStatus::Cancelled, "the run was cancelled")
    );
    assert!(matches!(
        kept.lock().unwrap().last(),
        Some(RunEvent::Finished {
            status: RunStatus::Cancelled,
            ..
        })
    ));
}

#[test]
fn too_many_failures_in_a_row_end_the_run() {
    let model = ScriptedModel::from_fn(|_, index| {
        Ok(runs(
            Format::Markdown,
            &format!("raise ValueError({index})"),
        ))
    });
    let outcome = end(
        model,
        RunLimits {
            failures: 4,
            ..RunLimits::default()
        },
    );
    assert_eq!(
        told(&outcome),
        (RunStatus::MaxFailures, "4 steps in a row failed")
    );
}

#[test]
fn a_model_that_repeats_itself_is_told_and_then_stopped() {
    let model = Arc::new(ScriptedModel::from_fn(|_, _| {
        Ok(runs(Format::Markdown, "print(1)"))
    }));
    let agent = Agent::builder()
        .shared_model(model.clone())
        .executor(crate::support::python())
        .format(Format::Markdown)
        .build()
        .unwrap();
    let outcome = wait(agent.run("?")).unwrap();
    assert_eq!((outcome.status, outcome.steps.len()), (RunStatus::Stuck, 4));
    let last = model
        .requests()
        .last()
        .unwrap()
        .messages
        .last()
        .unwrap()
        .text();
    assert!(last.ends_with("Note: you have made the same call of execute_python_code 3 times, with the same result each time. It will not change. Take another way, or answer with what you know. To answer, reply in plain words, without code and without calls."), "{last}");
}

#[test]
fn the_same_error_by_other_code_is_noticed_too() {
    let model = ScriptedModel::from_fn(|_, index| {
        Ok(runs(
            Format::Markdown,
            &format!("y = {index}\nprint(missing)"),
        ))
    });
    let outcome = end(model, RunLimits::default());
    assert_eq!((outcome.status, outcome.steps.len()), (RunStatus::Stuck, 4));
    assert!(
        outcome
            .message
            .unwrap()
            .contains("NameError: name 'missing' is not defined")
    );
}

#[test]
fn replies_that_cannot_be_read_are_asked_for_again_three_times() {
    let model = Arc::new(ScriptedModel::from_fn(|_, _| {
        Ok(Reply::text("I think it is 4."))
    }));
    let agent = Agent::builder()
        .shared_model(model.clone())
        .executor(crate::support::python())
        .format(Format::Json)
        .build()
        .unwrap();
    let outcome = wait(agent.run("?")).unwrap();
    assert_eq!(
        (outcome.status, model.requests().len()),
        (RunStatus::MalformedReplies, 4)
    );
    assert_eq!(outcome.reached.as_deref(), Some("I think it is 4."));
    let asked = model.requests()[1].messages.last().unwrap().text();
    assert!(
        asked.starts_with("Your reply could not be used: there is no JSON object in the reply."),
        "{asked}"
    );
}

#[test]
fn a_good_reply_after_a_bad_one_starts_the_count_again() {
    let bad = || Reply::text("?");
    let good = |index: usize| runs(Format::Json, &format!("print({index})"));
    let replies = [
        bad(),
        bad(),
        bad(),
        good(1),
        bad(),
        bad(),
        bad(),
        answers(Format::Json, "4"),
    ];
    let outcome = wait(
        scripted(replies)
            .format(Format::Json)
            .build()
            .unwrap()
            .run("?"),
    )
    .unwrap();
    assert_eq!(
        (outcome.status, outcome.steps[0].malformed),
        (RunStatus::Answered, 3)
    );
}

#[test]
fn a_model_that_cannot_be_asked_ends_the_run_with_its_words() {
    let outcome = wait(
        scripted([runs(Format::Tools, "print(7)")])
            .build()
            .unwrap()
            .run("?"),
    )
    .unwrap();
    assert_eq!(
        told(&outcome),
        (
            RunStatus::ModelError,
            "the script has only 1 replies, and one more was asked for"
        )
    );
    assert!(outcome.reached.unwrap().contains('7'));
}

#[test]
fn a_conversation_that_is_too_long_for_the_endpoint_is_shortened_and_asked_once_more() {
    let overflow = || ModelError::ContextOverflow {
        model: "m".to_owned(),
        limit: Some(9_000),
        message: "too long".to_owned(),
    };
    let outcomes = [
        Ok(runs(Format::Markdown, "print('x' * 50_000)")),
        Ok(runs(Format::Markdown, "print(2)")),
        Err(overflow()),
        Ok(Reply::text("2")),
    ];
    let outcome = end(ScriptedModel::with_outcomes(outcomes), RunLimits::default());
    assert_eq!(outcome.status, RunStatus::Answered);
    let outcome = end(
        ScriptedModel::with_outcomes([Err(overflow()), Err(overflow())]),
        RunLimits::default(),
    );
    assert_eq!(
        told(&outcome),
        (
            RunStatus::ModelError,
            "the conversation is too long for `m`: too long"
        )
    );
}

#[test]
fn a_tool_that_is_not_there_is_an_answer_and_no_end() {
    let replies = [calls("search_web", json!({"q": 1})), Reply::text("ok")];
    let outcome = wait(scripted(replies).build().unwrap().run("?")).unwrap();
    assert_eq!(outcome.status, RunStatus::Answered);
    let text = &outcome.steps[0].actions[0].text;
    assert!(
        text.starts_with(
            "Tool call failed: there is no tool `search_web`; the tools are execute_python_code"
        ),
        "{text}"
    );
}

#[test]
fn an_empty_question_is_refused_and_a_huge_one_ends_with_a_message() {
    let agent = scripted([]).build().unwrap();
    assert!(matches!(
        wait(agent.run("  \n")),
        Err(AgentError::EmptyQuestion)
    ));
    let agent = scripted([Reply::text("yes")])
        .context_tokens(8_000)
        .build()
        .unwrap();
    let outcome = wait(agent.run(&"why? ".repeat(200_000))).unwrap();
    assert_eq!(outcome.status, RunStatus::ModelError);
    let message = outcome.message.unwrap();
    assert!(
        message.ends_with("and the model takes 8000 with its reply; put what is long into a file"),
        "{message}"
    );
}

#[test]
fn compute_is_no_longer_offered_after_five_failures() {
    let model = Arc::new(ScriptedModel::from_fn(|_, index| {
        Ok(match index {
            0..5 => calls(
                "compute",
                json!({"tool_call_purpose": "p", "code": format!("int('a{index}')"), "description": "d"}),
            ),
            _ => Reply::text("gave up"),
        })
    }));
    let (observer, kept) = keeper();
    let limits = RunLimits {
        failures: 20,
        ..RunLimits::default()
    };
    let agent = Agent::builder()
        .shared_model(model.clone())
        .executor(crate::support::python())
        .limits(limits)
        .build()
        .unwrap();
    let outcome = wait(agent.run_observed("?", observer, CancellationToken::new())).unwrap();
    let offered = |request: usize| {
        model.requests()[request]
            .tools
            .iter()
            .any(|tool| tool["function"]["name"] == "compute")
    };
    let explained = |request: usize| {
        model.requests()[request].messages[0]
            .text()
            .contains("Use compute for")
    };
    assert_eq!(outcome.steps.len(), 5, "{outcome:?}");
    assert_eq!(
        (offered(4), explained(4), offered(5), explained(5)),
        (true, true, false, false)
    );
    let last = model.requests()[5].messages.last().unwrap().text();
    assert!(
        last.ends_with("is no longer offered. Use execute_python_code."),
        "the model is told: {last}"
    );
    let notes = kept
        .lock()
        .unwrap()
        .iter()
        .filter(
            |event| matches!(event, RunEvent::Note { text } if text.contains("no longer offered")),
        )
        .count();
    assert_eq!(notes, 1);
}

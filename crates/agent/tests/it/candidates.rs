//! The best of several replies.

use crate::support::{keeper, runs, scripted, wait};
use cellblock_agent::{CancellationToken, Candidate, Format, RunEvent, RunStatus, Trial};
use cellblock_model::Reply;
use cellblock_tools::{Context, Tool, ToolError, Uses};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

#[test]
fn the_reply_whose_code_succeeds_is_chosen_and_the_others_leave_nothing() {
    let replies = [
        runs(Format::Markdown, "left = 1\n1 / 0"),
        runs(Format::Markdown, "x = 2\nopen('x.txt', 'w').write('2')"),
        runs(Format::Markdown, "oops("),
        runs(
            Format::Markdown,
            "print('left' in globals(), x, open('x.txt').read())",
        ),
        runs(Format::Markdown, "1 / 0"),
        runs(Format::Markdown, "1 / 0"),
        Reply::text("2"),
        Reply::text("3"),
        Reply::text("3"),
    ];
    let outcome = wait(
        scripted(replies)
            .format(Format::Markdown)
            .best_of(3)
            .build()
            .unwrap()
            .run("?"),
    )
    .unwrap();
    assert_eq!(
        (
            outcome.status,
            outcome.answer_text().as_str(),
            outcome.steps.len()
        ),
        (RunStatus::Answered, "3", 2)
    );
    assert_eq!(
        outcome.steps[1].actions[0].result.as_ref().unwrap().stdout,
        "False 2 2\n"
    );
}

#[test]
fn those_who_watch_see_every_reply_and_its_trial() {
    let replies = [
        runs(Format::Markdown, "1 / 0"),
        runs(Format::Markdown, "print('kept')"),
        Reply::text("a"),
        Reply::text("b"),
    ];
    let agent = scripted(replies)
        .format(Format::Markdown)
        .best_of(2)
        .build()
        .unwrap();
    let (observer, kept) = keeper();
    wait(agent.run_observed("?", observer, CancellationToken::new())).unwrap();
    let kept = kept.lock().unwrap();
    let told: Vec<(usize, usize, &[Candidate])> = kept
        .iter()
        .filter_map(|event| match event {
            RunEvent::Candidates {
                step,
                chosen,
                candidates,
            } => Some((*step, *chosen, candidates.as_slice())),
            _ => None,
        })
        .collect();
    let [(1, 1, [failed, kept]), (2, 0, [first, second])] = told.as_slice() else {
        panic!("{told:?}");
    };
    assert_eq!(
        (failed.trial, kept.trial),
        (Trial::Failed, Trial::Succeeded)
    );
    assert!(failed.text.contains("ZeroDivisionError"), "{failed:?}");
    assert_eq!(kept.code, "print('kept')");
    assert!(kept.text.contains("kept"), "{kept:?}");
    assert_eq!((first.text.as_str(), second.text.as_str()), ("a", "b"));
    assert_eq!(first.trial, Trial::NotTried);
}

#[test]
fn a_scorer_decides_between_replies_that_succeed() {
    let replies = [
        runs(Format::Tools, "print(1)"),
        runs(Format::Tools, "print(333)"),
        Reply::text("a"),
        Reply::text("a"),
    ];
    let longest = Arc::new(|done: &cellblock_agent::ActionResult| {
        done.result
            .as_ref()
            .map_or(0.0, |result| result.stdout.len() as f64)
    });
    let agent = scripted(replies)
        .best_of(2)
        .scorer(longest)
        .build()
        .unwrap();
    let outcome = wait(agent.run("?")).unwrap();
    assert_eq!(
        outcome.steps[0].actions[0].result.as_ref().unwrap().stdout,
        "333\n"
    );
}

/// Waits until two callers are there.
#[derive(Clone)]
struct MeetTool(watch::Sender<usize>);

/// Waits for another caller.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Meet {}

impl Tool for MeetTool {
    type Parameters = Meet;
    type Output = String;

    fn time_limit(&self) -> Option<Duration> {
        Some(Duration::from_secs(30))
    }

    async fn call(&self, _: Meet, _: &Context) -> Result<String, ToolError> {
        self.0.send_modify(|callers| *callers += 1);
        let mut callers = self.0.subscribe();
        let met = callers.wait_for(|callers| *callers >= 2).await;
        met.map(|_| "met".to_owned())
            .map_err(|_| ToolError::new("alone"))
    }
}

#[test]
fn candidates_are_tried_side_by_side() {
    // Each candidate waits for the other one: one after the other, both would fail.
    let replies = [
        runs(Format::Markdown, "print(meet())"),
        runs(Format::Markdown, "print(meet(), 2)"),
        Reply::text("done"),
        Reply::text("done"),
    ];
    let agent = scripted(replies)
        .format(Format::Markdown)
        .tool(MeetTool(watch::Sender::new(0)))
        .best_of(2)
        .build()
        .unwrap();
    let outcome = wait(agent.run("?")).unwrap();
    let result = outcome.steps[0].actions[0].result.as_ref().unwrap();
    assert_eq!(result.stdout, "met\n");
    assert_eq!(outcome.steps[0].actions.len(), 1);
}

/// Counts its calls.
#[derive(Clone, Default)]
struct TickTool(Arc<AtomicUsize>);

/// Counts its calls.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Tick {}

impl Tool for TickTool {
    type Parameters = Tick;
    type Output = u32;

    fn uses(&self) -> Uses {
        Uses::State
    }

    async fn call(&self, _: Tick, _: &Context) -> Result<u32, ToolError> {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        Ok(u32::try_from(before)? + 1)
    }
}

#[test]
fn a_tool_with_state_is_called_once_and_code_that_calls_it_is_no_failure() {
    let replies = [
        runs(Format::Markdown, "1 / 0"),
        runs(Format::Markdown, "print(tick())"),
        Reply::text("done"),
        Reply::text("done"),
    ];
    let tool = TickTool::default();
    let agent = scripted(replies)
        .format(Format::Markdown)
        .tool(tool.clone())
        .best_of(2)
        .build()
        .unwrap();
    let outcome = wait(agent.run("?")).unwrap();
    let result = outcome.steps[0].actions[0].result.as_ref().unwrap();
    assert_eq!(
        (result.stdout.as_str(), tool.0.load(Ordering::Relaxed)),
        ("1\n", 1)
    );
}

#[test]
fn candidates_that_take_long_take_as_long_as_one() {
    let slow = |text: &str| {
        let code = format!("import time\ntime.sleep(3)\nprint({text})");
        runs(Format::Markdown, &code)
    };
    let replies = [
        slow("1"),
        slow("2"),
        slow("3"),
        Reply::text("1"),
        Reply::text("1"),
        Reply::text("1"),
    ];
    let agent = scripted(replies)
        .format(Format::Markdown)
        .best_of(3)
        .build()
        .unwrap();
    let begun = Instant::now();
    let outcome = wait(agent.run("?")).unwrap();
    assert_eq!(outcome.answer_text(), "1");
    // Three seconds for the trials, and three for the chosen one. One after the other it would be twelve.
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(11), "{took:?}");
}

//! The best of several replies.

use crate::support::{runs, scripted, wait};
use cellblock_agent::{Format, RunStatus};
use cellblock_model::Reply;
use std::sync::Arc;

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

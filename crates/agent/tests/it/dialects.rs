//! Every dialect in every format: an action in a form that was not asked for is never the final answer.

use crate::repairs::{Fixture, fixtures, outcome};
use crate::support::{cut_off, facts};
use cellblock_agent::Format;
use cellblock_model::Reply;

fn dialects() -> Vec<Fixture> {
    let mut found = fixtures();
    found.retain(|fixture| fixture.name.starts_with("dialect-"));
    assert!(found.len() > 50, "only {} dialects", found.len());
    found
}

/// Whether the header of a fixture says that the reply is an answer.
fn is_answer(fixture: &Fixture) -> bool {
    fixture.expected["actions"][0].get("answer").is_some()
}

#[test]
fn an_action_in_any_dialect_is_no_answer_in_any_format() {
    let mut wrong = Vec::new();
    for fixture in dialects().iter().filter(|fixture| !is_answer(fixture)) {
        for format in Format::ALL {
            let reply = if fixture.cut_off {
                cut_off(&fixture.reply)
            } else {
                Reply::text(&fixture.reply)
            };
            let read = format.implementation().parse(&reply, &facts());
            if let Some(answer) = read.as_ref().ok().and_then(|turn| turn.answer()) {
                wrong.push(format!("{} in {format}: {answer}", fixture.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn code_in_a_dialect_is_the_same_code_in_every_format() {
    let mut wrong = Vec::new();
    for fixture in dialects() {
        let Some(code) = fixture.expected["actions"][0]["code"].as_str() else {
            continue;
        };
        for format in Format::ALL {
            let reply = Reply::text(&fixture.reply);
            let read = format.implementation().parse(&reply, &facts());
            let got = outcome(read);
            let first = &got["actions"][0];
            let is_same = first["code"] == code
                || first["arguments"]["python_code_snippet"].as_str() == Some(code);
            if !is_same {
                wrong.push(format!("{} in {format}: {got}", fixture.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

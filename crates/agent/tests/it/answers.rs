//! Answers of a type, and answers that are checked.

use crate::support::{GetSecretTool, answers, runs, scripted, wait};
use cellblock_agent::{Format, RunStatus, Verify};
use cellblock_model::Reply;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Statistics {
    mean: f64,
    names: Vec<String>,
}

#[test]
fn an_answer_is_read_into_a_type_and_asked_for_again_where_it_does_not_fit() {
    let replies = [
        Reply::text("The mean is 2."),
        Reply::text(r#"{"mean": "two", "names": []}"#),
        Reply::text("```json\n{\"mean\": 2.0, \"names\": [\"a\"]}\n```"),
    ];
    let outcome = wait(
        scripted(replies)
            .answers::<Statistics>()
            .build()
            .unwrap()
            .run("?"),
    )
    .unwrap();
    let expected = Statistics {
        mean: 2.0,
        names: vec!["a".to_owned()],
    };
    assert_eq!(
        outcome.answer_as::<Statistics>().unwrap().unwrap(),
        expected
    );
}

#[test]
fn a_number_behind_a_label_is_the_answer_and_one_among_words_is_not() {
    let read = |text: &str| {
        let replies = (0..4).map(|_| Reply::text(text));
        let agent = scripted(replies).answers::<u32>().build().unwrap();
        wait(agent.run("?")).unwrap().answer
    };
    for text in ["2", "Final answer: 2", "**The answer**: 2."] {
        assert_eq!(read(text), Some(json!(2)), "{text}");
    }
    for text in ["At 12:30 there were 2", "12:30: 2", "Final answer: -2"] {
        assert_eq!(read(text), None, "{text}");
    }
}

#[test]
fn an_answer_that_never_fits_ends_the_run() {
    let replies = (0..4).map(|_| Reply::text("about two"));
    let outcome = wait(scripted(replies).answers::<u32>().build().unwrap().run("?")).unwrap();
    assert_eq!(outcome.status, RunStatus::InvalidAnswer);
    assert_eq!(
        outcome.message.as_deref(),
        Some("the answer does not fit the schema: it is not JSON")
    );
    assert_eq!(outcome.reached.as_deref(), Some("about two"));
}

#[test]
fn verify_runs_the_cells_again_with_recorded_tools() {
    let replies = [
        runs(
            Format::Markdown,
            "secret = get_secret()\nopen('s.txt', 'w').write(secret)",
        ),
        runs(Format::Markdown, "print(len(secret))"),
        Reply::text("8"),
    ];
    let agent = scripted(replies)
        .format(Format::Markdown)
        .tool(GetSecretTool)
        .answers::<u32>()
        .verify(Verify::On);
    let outcome = wait(agent.build().unwrap().run("How long?")).unwrap();
    let verification = outcome.verification.unwrap();
    assert_eq!(
        (verification.cells, verification.is_confirmed()),
        (2, true),
        "{verification:?}"
    );
}

#[test]
fn verify_sees_a_wrong_answer_and_a_cell_that_gives_something_else() {
    let replies = [
        runs(Format::Markdown, "import uuid\nprint(uuid.uuid4())"),
        runs(Format::Markdown, "print(17 + 25)"),
        Reply::text("43"),
    ];
    let agent = scripted(replies)
        .format(Format::Markdown)
        .answers::<u32>()
        .verify(Verify::On);
    let outcome = wait(agent.build().unwrap().run("17 + 25?")).unwrap();
    let verification = outcome.verification.unwrap();
    let differing: Vec<(usize, &str)> = verification
        .differences
        .iter()
        .map(|difference| (difference.cell, difference.what.as_str()))
        .collect();
    assert_eq!(
        (differing, verification.answer_was_computed),
        (vec![(1, "stdout")], Some(false))
    );
    assert!(
        outcome
            .warnings
            .contains(&"verify: no cell and no tool gave the answer".to_owned()),
        "{:?}",
        outcome.warnings
    );
}

#[test]
fn json_and_next_step_may_answer_with_a_structure() {
    let text = json!({"thought": "t", "action": "provide_answer", "code": null, "final_answer": {"mean": 1.5, "names": []}}).to_string();
    let outcome = wait(
        scripted([Reply::text(text)])
            .format(Format::Json)
            .answers::<Statistics>()
            .build()
            .unwrap()
            .run("?"),
    )
    .unwrap();
    assert_eq!(outcome.answer, Some(json!({"mean": 1.5, "names": []})));
    let outcome = wait(
        scripted([answers(Format::NextStep, "[1, 2]")])
            .format(Format::NextStep)
            .answers::<Vec<u32>>()
            .build()
            .unwrap()
            .run("?"),
    )
    .unwrap();
    assert_eq!(outcome.answer, Some(json!([1, 2])));
}

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
        // Letters: digits might be those of the answer.
        runs(
            Format::Markdown,
            "import os\nprint(''.join(chr(97 + byte % 26) for byte in os.urandom(20)))",
        ),
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
        outcome.warnings.contains(
            &"verify: the answer is unverified: nothing that the code or a tool gave has \"43\""
                .to_owned()
        ),
        "{:?}",
        outcome.warnings
    );
}

/// The verification of an answer in plain words, after this code.
fn verified(code: &str, answer: &str) -> (cellblock_agent::Verification, Vec<String>) {
    let replies = [runs(Format::Markdown, code), Reply::text(answer)];
    let agent = scripted(replies)
        .format(Format::Markdown)
        .verify(Verify::On);
    let outcome = wait(agent.build().unwrap().run("What is 17 + 25?")).unwrap();
    (outcome.verification.unwrap(), outcome.warnings)
}

#[test]
fn verify_finds_an_answer_in_plain_words_in_what_the_cells_give_again() {
    for (code, answer) in [
        ("print(17 + 25)", "17 + 25 is 42."),
        ("1 / 3", "About 0.333."),
        ("open('sum.txt', 'w').write('42')", "I wrote it to sum.txt."),
        ("final_answer(42)", "never said"),
    ] {
        let (verification, _) = verified(code, answer);
        assert!(verification.is_confirmed(), "{code}: {verification:?}");
    }
}

#[test]
fn verify_says_of_an_answer_that_no_cell_gave_that_it_is_unverified() {
    for (code, answer, untraced) in [
        ("print(17 + 25)", "17 + 25 is 43.", "43"),
        ("print('Anna')", "It was Bert.", "Bert"),
        ("x = 17 + 25", "All went well.", "All went well"),
    ] {
        let (verification, warnings) = verified(code, answer);
        assert_eq!(verification.untraced, [untraced], "{code}");
        assert!(!verification.is_confirmed());
        let last = warnings.last().unwrap();
        assert!(
            last.contains("unverified") && last.contains(untraced),
            "{last}"
        );
    }
}

#[test]
fn verify_does_not_confirm_an_answer_without_any_code() {
    let agent = scripted([Reply::text("42")]).verify(Verify::On);
    let outcome = wait(agent.build().unwrap().run("17 + 25?")).unwrap();
    assert!(!outcome.verification.unwrap().is_confirmed());
}

#[test]
fn final_answer_in_the_code_ends_the_run_in_every_format() {
    for format in Format::ALL {
        let replies = [runs(
            format,
            "x = 6 * 7\nfinal_answer({'x': x, 'y': (1, 2)})",
        )];
        let agent = scripted(replies).format(format).build().unwrap();
        let outcome = wait(agent.run("What is 6 times 7?")).unwrap();
        assert_eq!(outcome.status, RunStatus::Answered, "{format}");
        assert_eq!(
            outcome.answer,
            Some(json!({"x": 42, "y": [1, 2]})),
            "{format}"
        );
        assert_eq!(outcome.steps.len(), 1, "{format}");
    }
}

#[test]
fn final_answer_in_the_code_is_checked_against_the_schema() {
    let replies = [
        runs(Format::Markdown, "final_answer('many')"),
        runs(Format::Markdown, "final_answer(42)"),
    ];
    let agent = scripted(replies).format(Format::Markdown).answers::<u32>();
    let outcome = wait(agent.build().unwrap().run("How many?")).unwrap();
    assert_eq!((outcome.answer, outcome.steps.len()), (Some(json!(42)), 2));
}

#[test]
fn final_answer_does_not_count_where_the_code_fails_after_it() {
    let replies = [
        runs(Format::Markdown, "final_answer(41)\n1 / 0"),
        runs(Format::Markdown, "final_answer(42)"),
    ];
    let agent = scripted(replies).format(Format::Markdown).build().unwrap();
    let outcome = wait(agent.run("How many?")).unwrap();
    assert_eq!(outcome.answer, Some(json!(42)));
}

#[test]
fn an_empty_final_answer_is_an_error_in_the_code() {
    let replies = [
        runs(Format::Markdown, "final_answer('')"),
        Reply::text("I do not know."),
    ];
    let agent = scripted(replies).format(Format::Markdown).build().unwrap();
    let outcome = wait(agent.run("How many?")).unwrap();
    assert_eq!(outcome.answer_text(), "I do not know.");
    let error = outcome.steps[0].actions[0].error.clone().unwrap();
    assert!(error.contains("the answer is empty"), "{error}");
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

/// What the model reads of this code.
fn observed(code: &str) -> String {
    let replies = [runs(Format::Markdown, code), Reply::text("done")];
    let agent = scripted(replies).format(Format::Markdown).build().unwrap();
    let outcome = wait(agent.run("?")).unwrap();
    outcome.steps[0].actions[0].text.clone()
}

#[test]
fn of_long_code_that_fails_the_model_reads_the_lines_around_the_error() {
    let mut lines: Vec<String> = (1..=30).map(|line| format!("x{line} = {line}")).collect();
    lines[19] = "1 / 0".to_owned();
    let text = observed(&lines.join("\n"));
    let expected = "### Original code:\n[… lines 1 to 14 …]\n  15 | x15 = 15\n";
    assert!(text.contains(expected), "{text}");
    assert!(
        text.contains("  25 | x25 = 25\n[… lines 26 to 30 …]\n### Error:"),
        "{text}"
    );
    assert!(text.contains("ZeroDivisionError"), "{text}");
}

#[test]
fn the_model_reads_the_true_end_of_a_long_output() {
    let text = observed("for n in range(400_000): print('line', n)\nprint('the end')");
    assert!(text.contains("line 0\nline 1\n"), "{text}");
    assert!(text.ends_with("line 399999\nthe end"), "{text}");
}

#[test]
fn final_answer_takes_an_object_that_json_cannot_say_and_keeps_it_as_a_file() {
    let code = "class Table:\n    def __str__(self):\n        return 'two rows'\n    def to_csv(self, path):\n        open(path, 'w').write('a,b\\n1,2\\n')\nfinal_answer(Table())";
    let agent = scripted([runs(Format::Markdown, code)]).format(Format::Markdown);
    let outcome = wait(agent.build().unwrap().run("Which rows?")).unwrap();
    let expected = "two rows\n(in the file final_answer.csv)";
    assert_eq!(outcome.answer, Some(json!(expected)));
    let result = outcome.steps[0].actions[0].result.as_ref().unwrap();
    let created: Vec<&str> = result
        .files
        .created
        .iter()
        .map(|file| file.path.as_str())
        .collect();
    assert_eq!(created, ["final_answer.csv"]);
}

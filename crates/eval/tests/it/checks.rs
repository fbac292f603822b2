//! Each kind of check, with an answer that holds and one that does not.

use crate::support::{finished, one_task, one_task_in};
use cellblock_agent::Format;

/// What the checks find wrong with an answer that comes without any code.
fn problems(check: &str, answer: &[&str]) -> Vec<String> {
    let report = finished(&one_task(
        &format!("question = \"?\"\nchecks = [{check}]"),
        answer,
    ));
    report.tasks[0].problems.clone()
}

#[test]
fn an_exact_answer_is_that_text_and_no_other() {
    let check = "{ check = \"exact\", answer = \"Björn Groß\" }";
    assert_eq!(problems(check, &["  Björn Groß\n"]), Vec::<String>::new());
    assert_eq!(
        problems(check, &["It is Björn Groß"]),
        ["the answer is not \"Björn Groß\""]
    );
}

#[test]
fn a_text_is_in_the_answer() {
    let check = "{ check = \"contains\", text = \"north\" }";
    assert_eq!(problems(check, &["It is north."]), Vec::<String>::new());
    assert_eq!(
        problems(check, &["It is North."]),
        ["the answer does not contain \"north\""]
    );
}

#[test]
fn a_number_is_near_enough() {
    let check = "{ check = \"number\", value = 8976.62, tolerance = 0.005 }";
    assert_eq!(
        problems(check, &["The 2nd of 4: 8,976.62."]),
        Vec::<String>::new()
    );
    assert_eq!(
        problems(check, &["8976.6"]),
        ["the last number in the answer is 8976.6, not 8976.62"]
    );
    assert_eq!(
        problems(check, &["none"]),
        ["there is no number in the answer; 8976.62 was wanted"]
    );
}

#[test]
fn json_is_equal_whatever_its_order_and_its_spaces() {
    let check = "{ check = \"json\", value = { a = 1, b = [2.5, \"x\"] } }";
    for answer in [
        &["{\"b\": [2.5, \"x\"], \"a\": 1.0}"],
        &["```json\n{\"a\": 1, \"b\": [2.5, \"x\"]}\n```"],
    ] {
        assert_eq!(problems(check, answer), Vec::<String>::new());
    }
    for answer in [&["{\"a\": 1}"], &["{\"a\": 2, \"b\": [2.5, \"x\"]}"]] {
        let problems = problems(check, answer);
        assert!(problems[0].starts_with("the answer is {"), "{problems:?}");
    }
    assert_eq!(problems(check, &["a is 1"]), ["the answer is not JSON"]);
}

#[test]
fn the_last_call_of_a_tool_counts_whoever_makes_it() {
    let task = "question = \"?\"\nsecret = \"NcS9euQa\"\ntools = [\"get_secret\", \"provide_answer\"]\n\
        checks = [{ check = \"called\", tool = \"provide_answer\", arguments = { answer = \"aQue9ScN\" } }]";
    let good = "```python\nprovide_answer('a guess')\nprovide_answer(get_secret()[::-1])\n```";
    let report = finished(&one_task(task, &[good, "done"]));
    assert_eq!(report.totals.score, 1.0, "{report:?}");
    let calls: Vec<&str> = report.tasks[0]
        .calls
        .iter()
        .map(|call| &*call.tool)
        .collect();
    assert_eq!(calls, ["provide_answer", "get_secret", "provide_answer"]);

    let bad = "```python\nprovide_answer(get_secret()[::-1])\nprovide_answer('another guess')\n```";
    let report = finished(&one_task(task, &[bad, "aQue9ScN"]));
    assert_eq!(
        report.tasks[0].problems,
        ["`provide_answer` was last called with answer = \"another guess\", not \"aQue9ScN\""]
    );
    let report = finished(&one_task(task, &["aQue9ScN"]));
    assert_eq!(
        report.tasks[0].problems,
        ["`provide_answer` was never called"]
    );
}

#[test]
fn a_number_may_be_handed_in_as_a_text() {
    let task = "question = \"?\"\ntools = [\"provide_answer\"]\n\
        checks = [{ check = \"called\", tool = \"provide_answer\", arguments = { answer = 46 } }]";
    for code in [
        "```python\nprovide_answer(46)\n```",
        "```python\nprovide_answer('46')\n```",
    ] {
        let report = finished(&one_task(task, &[code, "done"]));
        assert_eq!(report.totals.score, 1.0, "{report:?}");
    }
}

#[test]
fn where_there_is_no_answer_nothing_about_it_holds() {
    // The script ends after the first reply.
    let report = finished(&one_task(
        "question = \"?\"\nchecks = [{ check = \"contains\", text = \"\" }]",
        &["```python\n1\n```"],
    ));
    assert_eq!(report.tasks[0].problems, ["there is no answer"]);
    assert_eq!(
        report.tasks[0].status.map(|status| status.name()),
        Some("model_error")
    );
}

#[test]
fn the_answering_action_of_the_json_format_hands_in_too() {
    let task = "question = \"?\"\ntools = [\"provide_answer\"]\n\
        checks = [{ check = \"called\", tool = \"provide_answer\", arguments = { answer = \"NcS9euQa\" } }]";
    let reply =
        r#"{"thought": "", "action": "provide_answer", "code": null, "final_answer": "NcS9euQa"}"#;
    let report = finished(&one_task_in(Format::Json, task, &[reply]));
    assert_eq!(report.totals.score, 1.0, "{report:?}");
    // What the tool itself was given comes first.
    let code = r#"{"thought": "", "action": "execute_code", "code": "provide_answer('a guess')", "final_answer": null}"#;
    let report = finished(&one_task_in(Format::Json, task, &[code, reply]));
    assert_eq!(report.totals.score, 0.0, "{report:?}");
}

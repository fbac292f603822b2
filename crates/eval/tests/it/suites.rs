//! Suites: what is in their files, what is wrong with them, and each kind of check.

use crate::support::{finished, on_file, one_task, one_task_in};
use cellblock_agent::Format;
use cellblock_eval::{Check, Suite, Task, TaskFile, TestTool};

#[test]
fn a_file_of_tasks_is_read() {
    let text = r#"
        name = "small"
        description = "For this test."
        [files]
        "a/b.txt" = "hello"
        "raw.bin" = { base64 = "AP8=" }
        [[tasks]]
        name = "it"
        question = "What?"
        secret = "s"
        tools = ["get_secret"]
        files = ["a/b.txt", "raw.bin"]
        checks = [{ check = "number", value = 2 }]
    "#;
    let file = |path: &str, contents: &[u8]| TaskFile {
        path: path.to_owned(),
        contents: contents.to_vec(),
    };
    let expected = Suite {
        name: "small".to_owned(),
        description: "For this test.".to_owned(),
        tasks: vec![Task {
            name: "it".to_owned(),
            question: "What?".to_owned(),
            secret: Some("s".to_owned()),
            tools: vec![TestTool::GetSecret],
            files: vec![file("a/b.txt", b"hello"), file("raw.bin", &[0, 255])],
            schema: None,
            checks: vec![Check::Number {
                value: 2.0,
                tolerance: 0.0,
            }],
        }],
    };
    assert_eq!(Suite::parse(text).unwrap(), expected);
}

#[test]
fn the_suites_on_file_have_the_tasks_that_are_promised() {
    let names = |suite: &str| -> Vec<String> {
        let suite = Suite::read(on_file(&format!("{suite}/suite.toml"))).unwrap();
        suite.tasks.into_iter().map(|task| task.name).collect()
    };
    assert_eq!(
        names("secret"),
        [
            "return",
            "backwards",
            "second-of-list",
            "every-third",
            "digit-sum",
            "swap-case"
        ]
    );
    assert_eq!(
        names("data"),
        [
            "best-region",
            "median-reading",
            "best-paid",
            "slow-lines",
            "stock-value"
        ]
    );
}

#[test]
fn mistakes_in_a_file_are_named() {
    let task =
        |more: &str| format!("name = \"x\"\n[[tasks]]\nname = \"it\"\nquestion = \"?\"\n{more}");
    let check = "checks = [{ check = \"exact\", answer = \"1\" }]\n";
    for (text, words) in [
        ("name = \"x\"\ntasks = []".to_owned(), "it has no tasks"),
        (
            "name = \"../x\"\ntasks = []".to_owned(),
            "the name of the suite",
        ),
        (
            task(check).replace("\"it\"", "\"../it\""),
            "the name of a task, \"../it\", must have",
        ),
        (
            task(check).replace("\"?\"", "\" \""),
            "task `it`: the question is empty",
        ),
        (task("checks = []"), "task `it`: it has no checks"),
        (
            task("checks = [{ check = \"near\" }]"),
            "unknown variant `near`",
        ),
        (
            task("checks = [{ check = \"exact\", answr = \"1\" }]"),
            "unknown field `answr`",
        ),
        (
            task(&format!("tools = [\"get_secrets\"]\n{check}")),
            "unknown variant `get_secrets`",
        ),
        (
            task(&format!("tools = [\"get_secret\"]\n{check}")),
            "need each other",
        ),
        (task(&format!("secret = \"s\"\n{check}")), "need each other"),
        (
            task("checks = [{ check = \"called\", tool = \"provide_answer\" }]"),
            "which the task does not have",
        ),
        (
            task("checks = [{ check = \"number\", value = 1, tolerance = -1 }]"),
            "must not be negative",
        ),
        (
            task("checks = [{ check = \"file\", path = \"../a.csv\" }]"),
            "a relative path inside of the workspace",
        ),
        (
            task(check).replace("\"?\"", "{ path = \"question.md\" }"),
            "a path needs a suite that is a file itself",
        ),
        (
            task(&format!("files = [\"a.csv\"]\n{check}")),
            "the suite has no file `a.csv`",
        ),
        (
            format!(
                "{}[[tasks]]\nname = \"it\"\nquestion = \"?\"\n{check}",
                task(check)
            ),
            "two tasks with the name `it`",
        ),
        (
            task(&format!("{check}\n[[tasks]]\nname = 3")),
            "invalid type",
        ),
    ] {
        let problem = Suite::parse(&text).unwrap_err().to_string();
        assert!(problem.contains(words), "{words}\n{problem}");
    }
    for path in ["../a", "/a", "a/../../b", ""] {
        let text = format!(
            "name = \"x\"\nfiles = {{ \"{path}\" = \"\" }}\n[[tasks]]\nname = \"it\"\nquestion = \"?\"\n{check}"
        );
        let problem = Suite::parse(&text).unwrap_err().to_string();
        assert!(
            problem.contains("inside of the workspace"),
            "{path}: {problem}"
        );
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Suite::read("no/such/suite.toml").unwrap_err().to_string();
    assert!(error.starts_with("no/such/suite.toml: "), "{error}");
}

#[test]
fn some_tasks_can_be_chosen() {
    let text = "name = \"x\"\n".to_owned()
        + &["a", "b", "c"]
            .map(|name| format!("[[tasks]]\nname = \"{name}\"\nquestion = \"?\"\nchecks = [{{ check = \"exact\", answer = \"1\" }}]\n"))
            .concat();
    let suite = Suite::parse(&text).unwrap();
    let some = suite
        .clone()
        .with_tasks(&["c".to_owned(), "a".to_owned()])
        .unwrap();
    assert_eq!(
        some.tasks
            .iter()
            .map(|task| &*task.name)
            .collect::<Vec<_>>(),
        ["a", "c"]
    );
    assert_eq!(
        suite.with_tasks(&["d".to_owned()]).unwrap_err().to_string(),
        "there is no task `d`; the tasks are a, b, c"
    );
}

#[test]
fn the_example_of_the_page_is_understood() {
    let page = std::fs::read_to_string(on_file("../docs/eval.md")).unwrap();
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let suite = Suite::parse(example).unwrap();
    assert_eq!((&*suite.name, suite.tasks.len()), ("example", 2));
    assert_eq!(
        suite.tasks[1].files[0].contents,
        b"month,amount\n1,2.5\n2,5.0\n"
    );
}

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

#[test]
fn a_question_may_lie_beside_the_suite() {
    let folder = tempfile::tempdir().unwrap();
    let suite = folder.path().join("suite.toml");
    std::fs::write(folder.path().join("question.md"), "How many?\n").unwrap();
    let text = "name = \"x\"\n[[tasks]]\nname = \"it\"\nquestion = { path = \"question.md\" }\n\
                checks = [{ check = \"exact\", answer = \"1\" }]\n";
    std::fs::write(&suite, text).unwrap();
    assert_eq!(Suite::read(&suite).unwrap().tasks[0].question, "How many?");
}

//! Files of tasks: what is in them, and what is wrong with them.

use crate::support::on_file;
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
        let problem = Suite::parse(&text).unwrap_err();
        assert!(problem.contains(words), "{words}\n{problem}");
    }
    for path in ["../a", "/a", "a/../../b", ""] {
        let text = format!(
            "name = \"x\"\nfiles = {{ \"{path}\" = \"\" }}\n[[tasks]]\nname = \"it\"\nquestion = \"?\"\n{check}"
        );
        let problem = Suite::parse(&text).unwrap_err();
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
        .only(&["c".to_owned(), "a".to_owned()])
        .unwrap();
    assert_eq!(
        some.tasks
            .iter()
            .map(|task| &*task.name)
            .collect::<Vec<_>>(),
        ["a", "c"]
    );
    assert_eq!(
        suite.only(&["d".to_owned()]).unwrap_err(),
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

//! The tools that every run has, over a real session.

use crate::support::{answer, execute, python, python_with, sessions_with, text, wait};
use cellblock_protocol::{Limits, SessionOptions, StateOutcome};
use cellblock_tools::{Call, CallLimits, OnToolEvent, Registry, SchemaForm, ToolEvent, ToolRunner};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[test]
fn t1_what_is_registered_once_appears_in_every_list() {
    let runner = python();
    let names = [
        "execute_python_code",
        "compute",
        "recursive_plan_tree_todo",
        "file_reader",
        "list_files",
        "undo",
        "checkpoints",
    ];
    assert_eq!(runner.registry().names(), names);
    let schemas = runner.registry().schemas(SchemaForm::Plain);
    let listed: Vec<&str> = schemas
        .iter()
        .map(|schema| schema["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(listed, names);
    let offered = runner.registry().offered_to_code();
    let offered: Vec<&str> = offered.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(
        offered,
        ["recursive_plan_tree_todo", "file_reader", "list_files"]
    );
}

#[test]
fn t7_code_runs_in_a_session_that_remembers() {
    let runner = python();
    assert_eq!(
        execute(&runner, "import math\nx = 20"),
        "## Code execution succeeded\n(no output; use print(...) or end with an expression)"
    );
    assert_eq!(
        execute(&runner, "print(math.sqrt(16))\nx + 1"),
        "## Code execution succeeded\n### Terminal output:\n4.0\n### Value:\n21"
    );
    let failed = execute(&runner, "x / 0");
    assert!(failed.starts_with("## Code execution failed"), "{failed}");
    assert!(
        failed.contains("ZeroDivisionError: division by zero"),
        "{failed}"
    );
}

#[test]
fn t7_the_schema_has_the_names_that_models_know() {
    let runner = python();
    let definition = runner.registry().get("execute_python_code").unwrap();
    assert_eq!(
        json!(definition.parameters["properties"]["timeout"]),
        json!({"description": "Seconds.", "type": "number", "default": 30.0, "exclusiveMinimum": 0})
    );
    assert_eq!(
        json!(definition.parameters["required"]),
        json!(["python_code_snippet"])
    );
    for word in ["State persists", "imports", "last expression", "package"] {
        assert!(definition.description.contains(word), "{word}");
    }
}

#[test]
fn t7_a_time_out_is_told_with_its_limit_and_the_session_lives() {
    let runner = python();
    execute(&runner, "x = 7");
    let arguments = json!({"python_code_snippet": "while True: pass", "timeout": 0.5});
    let told = text(&runner, "execute_python_code", arguments);
    assert!(told.contains("### Time limit: 0.5 seconds"), "{told}");
    assert!(execute(&runner, "x").ends_with("### Value:\n7"));
    let told = text(
        &runner,
        "execute_python_code",
        json!({"python_code_snippet": "1", "timeout": 0}),
    );
    assert_eq!(
        told,
        "Tool call failed: the arguments of `execute_python_code` do not fit: `timeout`: expected a number above 0, got 0"
    );
}

#[test]
fn t7_code_without_a_time_of_its_own_has_that_of_its_session() {
    let options = SessionOptions {
        limits: Limits {
            wall: Duration::from_millis(500),
            ..Limits::default()
        },
        ..SessionOptions::default()
    };
    let registry = Registry::builder().built_in().build().unwrap();
    let runner = ToolRunner::builder(registry)
        .open_sessions(sessions_with(options))
        .build();
    let told = execute(&runner, "while True: pass");
    assert!(told.contains("### Time limit: 0.5 seconds"), "{told}");
}

#[test]
fn t7_programs_get_the_whole_result() {
    let runner = python();
    let output = answer(
        &runner,
        "execute_python_code",
        json!({"python_code_snippet": "6 * 7"}),
    )
    .outcome
    .unwrap();
    let result = output.structured.unwrap();
    assert_eq!(
        (&result["status"], &result["value"]["repr"]),
        (&json!("success"), &json!("42"))
    );
}

#[test]
fn t7_pictures_come_as_parts() {
    let runner = python();
    let code = "class Picture:\n    def _repr_png_(self): return b'\\x89PNG'\ndisplay(Picture())\nPicture()";
    let arguments = json!({"python_code_snippet": code});
    let answer = answer(&runner, "execute_python_code", arguments);
    assert_eq!(answer.attachments().count(), 2);
    let result = answer.outcome.unwrap().structured.unwrap();
    assert_eq!(result["displays"][0].get("image/png"), None);
}

#[test]
fn a_call_that_is_dropped_stops_its_cell() {
    let runner = python();
    execute(&runner, "x = 1");
    let arguments =
        json!({"python_code_snippet": "import time\ntime.sleep(30)\nx = 2", "timeout": 60});
    let call = runner.call(Call::by_user("execute_python_code", arguments));
    assert!(wait(async { tokio::time::timeout(Duration::from_millis(300), call).await }).is_err());
    let begun = Instant::now();
    assert!(execute(&runner, "x").ends_with("### Value:\n1"));
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn t9_cells_of_one_reply_run_in_order() {
    let runner = python();
    let call =
        |code: String| Call::by_user("execute_python_code", json!({"python_code_snippet": code}));
    let calls = (0..5).map(|n| call(format!("seen = globals().get('seen', []) + [{n}]\nseen")));
    let answers = wait(runner.call_all(calls));
    let last = answers[4].outcome.as_ref().unwrap().to_text();
    assert!(last.ends_with("[0, 1, 2, 3, 4]"), "{last}");
}

#[test]
fn whoever_watches_sees_the_output_as_it_comes() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let watcher: OnToolEvent = {
        let seen = Arc::clone(&seen);
        Arc::new(move |happening| {
            if let ToolEvent::Cell(event) = happening {
                let text = serde_json::to_value(event).unwrap()["text"]
                    .as_str()
                    .map(str::to_owned);
                seen.lock().unwrap().extend(text);
            }
        })
    };
    let runner = python();
    let call = Call::by_user(
        "execute_python_code",
        json!({"python_code_snippet": "print('a')\nprint('b')"}),
    );
    wait(runner.call_with_events(call, Some(watcher)));
    assert_eq!(seen.lock().unwrap().concat(), "a\nb\n");
}

#[test]
fn a_session_that_ended_is_replaced_and_the_model_is_told() {
    let limits = Limits {
        idle: Duration::from_millis(300),
        ..Limits::default()
    };
    let options = SessionOptions {
        limits,
        ..SessionOptions::default()
    };
    let registry = Registry::builder().built_in().build().unwrap();
    let runner = ToolRunner::builder(registry)
        .open_sessions(sessions_with(options))
        .build();
    execute(&runner, "x = 1");
    std::thread::sleep(Duration::from_millis(900));
    let told = execute(&runner, "'x' in globals()");
    assert!(
        told.contains("### Value:\nFalse\nNote: the earlier session ended (it was idle for 0 s)"),
        "{told}"
    );
    assert!(!execute(&runner, "1").contains("Note"));
}

#[test]
fn r15_a_run_that_executes_no_code_starts_no_interpreter() {
    let runner = python();
    let plan = json!({"recursive_plan_tree": {"core_goal": "none"}});
    assert!(answer(&runner, "recursive_plan_tree_todo", plan).is_ok());
    assert!(wait(runner.current_session()).is_none());
}

#[test]
fn without_a_session_the_tools_that_need_one_say_so() {
    let runner = ToolRunner::new(Registry::builder().built_in().build().unwrap());
    assert_eq!(
        execute(&runner, "1"),
        "Tool call failed: there is no Python session here"
    );
}

#[test]
fn e1_compute_gives_a_result_or_an_error() {
    let runner = python();
    execute(&runner, "word = 'NcS9euQa'");
    for name in ["compute", "compute_with_python"] {
        let arguments = json!({"code": "word[::-1]", "description": "reverse"});
        assert_eq!(
            text(&runner, name, arguments),
            r#"{"result":"aQue9ScN","error":null}"#
        );
    }
    assert_eq!(
        text(
            &runner,
            "compute",
            json!({"code": "1/0", "description": "no"})
        ),
        r#"{"result":null,"error":"PythonError: ZeroDivisionError: division by zero"}"#
    );
    assert!(text(&runner, "compute", json!({"code": "1"})).contains("missing field `description`"));
    // The alias is not in the schemas.
    let schemas = json!(runner.registry().schemas(SchemaForm::Plain)).to_string();
    assert!(!schemas.contains("compute_with_python"));
}

#[test]
fn the_model_can_roll_its_session_back() {
    let runner = python();
    execute(&runner, "kept = 1");
    execute(
        &runner,
        "kept = 2\nspoilt = 3\nopen('made.txt', 'w').write('x')",
    );
    assert_eq!(
        text(&runner, "checkpoints", "{}"),
        "Checkpoints, newest first: after cell 2, after cell 1, the beginning"
    );
    assert_eq!(
        text(&runner, "undo", "{}"),
        "The session is as it was after cell 1.\nVariables with their earlier value: kept\n\
         Variables that are gone: spoilt\nFiles that are gone: made.txt"
    );
    assert!(execute(&runner, "kept, 'spoilt' in globals()").ends_with("(1, False)"));
    assert!(text(&runner, "undo", json!({"count": 40})).starts_with("Tool call failed: "));
}

#[test]
fn t8_a_file_is_read_with_the_words_of_the_contract() {
    let runner = python();
    execute(
        &runner,
        "import os
os.makedirs('sub', exist_ok=True)
open('sub/é.txt', 'w').write('naïve\\nline')
open('chinese.txt', 'wb').write('你好'.encode('gbk'))
open('big.txt', 'w').write('line\\n' * 400_000 + 'end')
open('empty.txt', 'w').close()
os.symlink('/etc/passwd', 'out')
os.mkfifo('fifo')",
    );
    let read = |arguments: Value| text(&runner, "file_reader", arguments);
    for path in ["sub/é.txt", "./sub/é.txt", "/workspace/sub/é.txt"] {
        assert_eq!(
            read(json!({"file_path": path})),
            "File contents (10 chars):\nnaïve\nline"
        );
    }
    assert_eq!(
        read(json!({"file_path": "empty.txt"})),
        "File contents (0 chars):\n"
    );
    assert_eq!(
        read(json!({"file_path": "no.txt"})),
        "Error: File 'no.txt' does not exist"
    );
    assert_eq!(
        read(json!({"file_path": "big.txt"})),
        "File 'big.txt' is too large (1.91MB).\nStatistics: 400001 lines, 2000003 bytes"
    );
    let whole = answer(
        &runner,
        "file_reader",
        json!({"file_path": "big.txt", "max_size_mb": 2}),
    )
    .outcome
    .unwrap();
    assert!(
        whole
            .to_text()
            .starts_with("File contents (2000003 chars):\nline\n")
    );
    assert_eq!(
        read(json!({"file_path": "chinese.txt"})),
        "Encoding error: Cannot decode file with utf-8. Try a different encoding."
    );
    assert_eq!(
        read(json!({"file_path": "chinese.txt", "encoding": "gbk"})),
        "File contents (2 chars):\n你好"
    );
    assert_eq!(
        read(json!({"file_path": "chinese.txt", "encoding": "klingon"})),
        "Error reading file: unknown encoding: klingon"
    );
    for (path, reason) in [
        (
            "../secret",
            "the path must be relative and stay in the workspace",
        ),
        (
            "/etc/passwd",
            "the path must be relative and stay in the workspace",
        ),
        ("fifo", "it is not a plain file"),
        ("sub", "it is not a plain file"),
    ] {
        assert_eq!(
            read(json!({"file_path": path})),
            format!("Error reading file: {reason}")
        );
    }
    assert!(read(json!({"file_path": "out"})).starts_with("Error reading file: "));
}

#[test]
fn files_are_listed() {
    let runner = python();
    assert_eq!(text(&runner, "list_files", "{}"), "There are no files.");
    execute(
        &runner,
        "import os\nos.mkdir('a')\nopen('a/b.csv', 'w').write('1,2')\nopen('c.txt', 'w').close()\nopen('ab.txt', 'w').close()",
    );
    assert_eq!(
        text(&runner, "list_files", "{}"),
        "a/b.csv (3 bytes, text/csv)\nab.txt (0 bytes, text/plain)\nc.txt (0 bytes, text/plain)"
    );
    for directory in ["a", "a/", "/workspace/a", "./a"] {
        assert_eq!(
            text(&runner, "list_files", json!({"directory": directory})),
            "a/b.csv (3 bytes, text/csv)"
        );
    }
}

#[test]
fn a_crash_in_a_cell_is_an_answer_and_the_state_is_back() {
    let runner = python_with(|registry| registry);
    execute(&runner, "x = 5");
    let code = json!({"python_code_snippet": "import os\nos._exit(139)"});
    let result = answer(&runner, "execute_python_code", code)
        .outcome
        .unwrap()
        .structured
        .unwrap();
    assert_eq!(result["state"]["outcome"], json!(StateOutcome::Restored));
    assert!(execute(&runner, "x").ends_with("### Value:\n5"));
    assert_eq!(runner.limits(), &CallLimits::default());
}

//! What a hint names in each place where it appears: the flag or the command that helps there.

use crate::fake_model::FakeModel;
use crate::support::Place;
use serde_json::{Value, json};

/// What a person sees of this code in `exec` and in `repl`, and the hint for a program at the pipe.
fn shown_everywhere(place: &Place, flags: &[&str], opened: &Value, code: &str) -> String {
    let exec = ["exec", "-c", code, "--stdlib"];
    let mut shown = place.transcript(exec.iter().chain(flags));
    let repl = ["repl", "--stdlib"];
    shown += &place.transcript_with(repl.iter().chain(flags), &format!("{code}\n"));
    let mut open = json!({"id": 1, "op": "open"});
    for (name, value) in opened.as_object().into_iter().flatten() {
        open[name] = value.clone();
    }
    let run = json!({"id": 2, "op": "run", "code": code});
    let ended = place.run_with(["pipe", "--stdlib"], format!("{open}\n{run}\n").as_bytes());
    let lines = ended
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let results: Vec<Value> = lines.filter(|line| line["event"] == "result").collect();
    let [result] = &results[..] else {
        panic!("{}", ended.stdout)
    };
    let places = ["/result/error/hint", "/result/error/value"];
    let hint = places
        .iter()
        .find_map(|place| result.pointer(place)?.as_str());
    format!(
        "{shown}----- the hint at the pipe\n{}\n",
        hint.unwrap_or("(none)")
    )
}

/// One snapshot for each piece of code that runs into a limit or a wall.
macro_rules! obstacles {
    ($($name:ident: $code:expr, [$($flag:expr),*], $opened:tt;)*) => {$(
        #[test]
        fn $name() {
            insta::assert_snapshot!(shown_everywhere(&Place::new(), &[$($flag),*], &json!($opened), $code));
        }
    )*};
}

obstacles! {
    too_much_memory_is_answered_with_the_flag:
        "bytearray(200 << 30)", [], {};
    too_many_threads_are_answered_with_the_flag:
        "import threading, time\nfor _ in range(500): threading.Thread(target=time.sleep, args=(5,)).start()\n", [], {};
    too_many_open_files_are_answered_with_the_flag:
        "held = []\nwhile True: held.append(open('/dev/null'))\n", [], {};
    a_network_that_is_closed_is_answered_with_the_flag:
        "import socket; socket.create_connection(('example.com', 80), 5)", [], {};
    a_network_that_is_closed_is_answered_with_the_flag_where_a_library_wraps_the_error:
        "import urllib.request as u; u.urlopen('http://example.com')", [], {};
    a_module_that_is_not_there_is_answered_with_the_ways_to_its_package:
        "import nowhere.at_all", [], {};
    a_module_of_a_package_with_another_name_is_answered_with_that_name:
        "import cv2", [], {};
    a_package_that_code_wants_to_install_is_answered_with_the_ways_to_it:
        "import subprocess, sys; subprocess.run([sys.executable, '-m', 'pip', 'install', 'nowhere>=1.0'])", [], {};
    a_file_that_is_not_there_is_answered_with_the_flag:
        "open('sales.csv')", [], {};
    a_file_outside_of_the_workspace_is_answered_with_the_flag:
        "open('/home/ada/sales.csv')", [], {};
    a_host_that_no_rule_names_is_answered_with_the_hosts_that_rules_name_and_the_flag:
        "import urllib.request as u; u.urlopen('http://example.com')",
        ["--allow-net", "example.org"], {"network": ["example.org"]};
    a_host_that_no_rule_names_is_answered_in_the_same_way_over_tls:
        "import urllib.request as u; u.urlopen('https://example.com')",
        ["--allow-net", "example.org"], {"network": ["example.org"]};
    memory_that_ends_the_process_is_answered_with_the_flag:
        "import mmap; held = mmap.mmap(-1, 2 << 30, flags=0x4022); [held.__setitem__(n, 1) for n in range(0, 2 << 30, 4096)]",
        ["--memory", "200MB"], {"limits": {"memory": "200MB"}};
}

#[test]
fn a_person_who_named_a_workspace_is_not_told_to_name_one() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("work")).unwrap();
    let code = "open('slaes.csv')";
    insta::assert_snapshot!(place.transcript(["exec", "--stdlib", "-w", "work", "-c", code]));
    let typed = format!("{code}\n");
    insta::assert_snapshot!(place.transcript_with(["repl", "--stdlib", "-w", "work"], &typed));
}

#[test]
fn a_package_is_named_where_a_library_wraps_the_error_of_its_import() {
    let code = "
try:
    import nowhere
except ImportError as error:
    raise ImportError('Missing optional dependency') from error";
    insta::assert_snapshot!(Place::new().transcript(["exec", "--stdlib", "-c", code]));
}

#[test]
fn a_notebook_that_is_run_as_a_file_names_the_flags_of_exec() {
    let place = Place::new();
    let cell = json!({
        "cell_type": "code", "id": "a", "metadata": {}, "execution_count": null, "outputs": [],
        "source": "import nowhere",
    });
    let notebook = json!({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]});
    let file = place.path().join("report.ipynb");
    std::fs::write(&file, notebook.to_string()).unwrap();
    let shown = place.transcript(["exec", "--stdlib", "report.ipynb"]);
    let written = std::fs::read_to_string(&file).unwrap();
    let written: Value = serde_json::from_str(&written).unwrap();
    let outputs = &written["cells"][0]["outputs"];
    insta::assert_snapshot!(format!(
        "{shown}----- the outputs in the file\n{outputs:#}\n"
    ));
}

#[test]
fn an_environment_that_is_not_there_is_answered_with_the_commands_for_environments() {
    let with_model = ["--model", "fake", "--base-url", "http://127.0.0.1:1/v1"];
    let commands = [
        &["exec", "-c", "1"][..],
        &["repl"],
        &["pipe"],
        &["mcp"],
        &["serve", "--listen", "127.0.0.1:0"],
        &[["ask", "?"].as_slice(), &with_model].concat(),
        &[["chat"].as_slice(), &with_model].concat(),
    ];
    let shown = commands.iter().map(|command| {
        let flags = ["--env", "nowhere"];
        Place::new().transcript(command.iter().copied().chain(flags))
    });
    insta::assert_snapshot!(shown.collect::<String>());
}

#[test]
fn a_person_is_told_the_flag_of_ask_when_the_code_of_a_model_meets_a_limit() {
    let model = FakeModel::saying(["```python\nbytearray(200 << 30)\n```", "It is too much."]);
    let mut arguments = vec!["ask", "Take it.", "--stdlib", "--model", "fake"];
    arguments.extend(["--base-url", &model.url, "--format", "markdown"]);
    insta::assert_snapshot!(Place::new().transcript(arguments));
}

#[test]
fn a_cell_that_takes_too_long_is_told_how_to_get_more_time() {
    let code = "import time; time.sleep(60)";
    let arguments = ["exec", "--stdlib", "--timeout", "1", "-c", code];
    insta::assert_snapshot!(Place::new().transcript(arguments));
}

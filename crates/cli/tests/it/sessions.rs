//! `cellblock sessions`: what is left of sessions whose host was killed, and of others.

use crate::pipe_calls::with_tool;
use crate::snapshot::unaligned;
use crate::support::{Ended, Pipe, Place};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

fn journals(place: &Place) -> PathBuf {
    place.path().join("state/cellblock/journals")
}

fn sessions(place: &Place, arguments: &[&str]) -> Ended {
    place.run(["sessions"].iter().chain(arguments))
}

fn list(place: &Place) -> Vec<Value> {
    let ended = sessions(place, &["list", "--json"]);
    assert_eq!((ended.status, &ended.stderr[..]), (0, ""));
    let short = sessions(place, &["--json"]);
    assert_eq!((short.status, &short.stderr[..]), (0, ""));
    serde_json::from_str::<Vec<Value>>(&ended.stdout).unwrap()
}

/// Runs a cell with every call answered by a text.
fn run(pipe: &mut Pipe, code: &str) -> Value {
    pipe.send(json!({"id": 1, "op": "run", "code": code}));
    loop {
        let line = pipe.next();
        match line["event"].as_str() {
            Some("tool_call") => {
                pipe.send(json!({"op": "tool_result", "call": line["call"], "result": "a fact"}));
            }
            Some("result" | "error") => return line,
            _ => {}
        }
    }
}

/// A pipe that was killed in the middle of a cell, after others.
fn killed(place: &Place) {
    let mut pipe = with_tool(place);
    pipe.ask(json!({"id": 1, "op": "put_file", "path": "in.txt", "base64": "Mw=="}));
    run(
        &mut pipe,
        "n = int(open('in.txt').read())\nfact = tools.lookup(query='x')",
    );
    run(&mut pipe, "import os; os._exit(1)");
    run(&mut pipe, "n = 0");
    pipe.ask(json!({"id": 1, "op": "undo"}));
    run(&mut pipe, "print('fact:', fact)\nn * 14");
    pipe.send(
        json!({"id": 2, "op": "run", "code": "n = 5\nprint('on', flush=True)\nwhile True: pass"}),
    );
    pipe.wait_for_output("on\n");
    // The journal is written a moment later, and on a busy machine a longer moment.
    while list(place)[0]["cells"] != 5 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    pipe.child.kill().unwrap();
    pipe.child.wait().unwrap();
}

#[test]
fn a_session_whose_host_was_killed_is_listed_shown_restored_and_exported() {
    let place = Place::new();
    killed(&place);

    let [listed] = &list(&place)[..] else {
        panic!("not one journal");
    };
    let told = ["session", "cells", "last_status", "life", "incomplete"].map(|name| &listed[name]);
    assert_eq!(
        told.map(Value::clone),
        [
            json!("default"),
            json!(5),
            json!(null),
            json!("died"),
            json!(false)
        ]
    );
    let id = listed["id"].as_str().unwrap();
    assert_eq!(
        sessions(&place, &["show", &id[..5]]),
        sessions(&place, &["show", "last"])
    );
    let mut seen = unaligned(&place.transcript(["sessions"]));
    seen += &place.transcript(["sessions", "show", "last"]);
    seen += &place.transcript(["sessions", "restore", id, "--check"]);
    insta::assert_snapshot!(seen);
    let restored = place.run_with(["sessions", "restore", "last"], b"n, fact\n%files\n");
    assert_eq!(
        (restored.status, &restored.stdout[..]),
        (0, "(3, 'a fact')\n    1 byte  in.txt\n"),
        "{}",
        restored.stderr
    );

    let script = place.path().join("session.py");
    let script = script.to_str().unwrap();
    assert_eq!(sessions(&place, &["export", id, "-o", script]).status, 0);
    let mut python = Command::new("python3");
    let output = python
        .args(["-I", script])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "fact: a fact\n42\n"
    );
    assert!(output.status.success());
}

#[test]
fn a_difference_is_reported_and_ends_with_1() {
    let place = Place::new();
    let code = b"import os\nx = os.urandom(16).hex()\nx\n";
    place.run_with(["repl", "--stdlib"], code);
    insta::assert_snapshot!(place.transcript(["sessions", "restore", "last", "--check"]));
    let checked = sessions(&place, &["restore", "last", "--check", "--json"]);
    let report: Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(
        (&report["replayed"], &report["differences"][1]["what"]),
        (&json!([1, 2, 3]), &json!("value"))
    );
    assert_eq!(list(&place).len(), 1, "a check keeps no journal");
}

#[test]
fn a_journal_that_is_cut_is_used_up_to_there() {
    let place = Place::new();
    place.run_with(["repl", "--stdlib"], b"x = 1\nx = 2\n");
    let path = fs::read_dir(journals(&place))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let text = fs::read(&path).unwrap();
    let ends: Vec<usize> = (0..text.len()).filter(|at| text[*at] == b'\n').collect();
    fs::write(&path, &text[..ends[2] + 30]).unwrap();
    let mut seen = unaligned(&place.transcript(["sessions"]));
    seen += &place.transcript(["sessions", "show", "last"]);
    seen += &place.transcript_with(["sessions", "restore", "last"], "x\n");
    insta::assert_snapshot!(seen);
}

#[test]
fn journals_are_private_and_only_kept_where_they_should_be() {
    let place = Place::new();
    place.exec("1", &[]);
    place.run_with(["repl", "--stdlib", "--no-journal"], b"1\n");
    let silent = place.run_with(
        ["pipe", "--stdlib", "--no-journal"],
        b"{\"op\":\"run\",\"code\":\"1\"}\n",
    );
    assert_eq!(silent.status, 0);
    assert!(!journals(&place).exists());
    place.exec("1", &["--journal"]);
    let off = b"{\"op\":\"open\",\"journal\":false}\n{\"op\":\"run\",\"code\":\"1\"}\n";
    place.run_with(["pipe", "--stdlib"], off);
    assert_eq!(list(&place).len(), 1);
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let file = fs::read_dir(journals(&place))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    assert_eq!((mode(&journals(&place)), mode(&file)), (0o700, 0o600));
}

#[test]
fn journals_are_removed_by_id_by_age_or_all_but_not_of_the_living() {
    let place = Place::new();
    for _ in 0..3 {
        place.run_with(["repl", "--stdlib"], b"1\n");
    }
    let mut pipe = place.pipe();
    pipe.send(json!({"id": 1, "op": "run", "code": "1"}));
    pipe.result();
    let ids: Vec<String> = list(&place)
        .iter()
        .map(|journal| journal["id"].as_str().unwrap().to_owned())
        .collect();
    let [living, first, ..] = &ids[..] else {
        panic!("{ids:?}");
    };
    insta::assert_snapshot!(place.transcript(["sessions", "remove", living]));
    assert_eq!(sessions(&place, &["remove", &first[..7]]).status, 0);
    assert_eq!(
        sessions(&place, &["remove", "--older-than", "1h"]).status,
        0
    );
    assert_eq!(list(&place).len(), 3);
    // How many bytes the journals have depends on the place.
    let all = sessions(&place, &["remove", "--all"]);
    assert!(
        all.stderr.starts_with("2 journals and ")
            && all.stderr.contains("1 session alive and stayed"),
        "{}",
        all.stderr
    );
    pipe.end();
    assert_eq!(list(&place)[0]["life"], "ended");
}

#[test]
fn a_full_disk_stops_the_journal_and_not_the_session() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return; // Only root mounts a small disk.
    }
    let place = Place::new();
    fs::create_dir_all(journals(&place)).unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=64k", "tmpfs"];
    let mounted = Command::new("mount")
        .args(mount)
        .arg(journals(&place))
        .status();
    assert!(mounted.unwrap().success());
    let mut pipe = place.pipe();
    let mut told = 0;
    for number in 0..20 {
        let code = format!("x = {number}\nprint('y' * 20_000)\nx");
        pipe.send(json!({"id": number, "op": "run", "code": code}));
        loop {
            let line = pipe.next();
            if line["event"] == "log" {
                let text = line["text"].as_str().unwrap();
                assert!(text.contains("No space left on device"), "{text}");
                told += 1;
            }
            if line["event"] == "result" {
                assert_eq!(line["result"]["value"]["repr"], number.to_string());
                break;
            }
        }
    }
    assert_eq!((told, pipe.end().1), (1, Some(0)));
    let checked = sessions(&place, &["restore", "last", "--check"]);
    let unmounted = Command::new("umount")
        .arg("-l")
        .arg(journals(&place))
        .status();
    assert!(unmounted.unwrap().success());
    assert_eq!(checked.status, 0, "{}", checked.stderr);
    assert!(
        checked
            .stdout
            .contains("the journal is not complete: it was not written to the end"),
        "{}",
        checked.stdout
    );
}

#[test]
fn a_notebook_is_json_of_the_right_form() {
    let place = Place::new();
    place.run_with(["repl", "--stdlib"], b"print('a')\n6 * 7\n");
    let exported = sessions(&place, &["export", "last", "--as", "notebook"]);
    let notebook: Value = serde_json::from_str(&exported.stdout).unwrap();
    assert_eq!(notebook["nbformat"], 4);
    assert_eq!(
        notebook["cells"][1]["outputs"][0]["data"],
        json!({"text/plain": "42"})
    );
}

#[test]
fn the_repl_does_not_journal_the_pictures_it_saves() {
    let place = Place::new();
    let code = "class P:\n    def _repr_png_(self): return b'x' * 9000\n\ndisplay(P())\n";
    insta::assert_snapshot!(place.transcript_with(["repl", "--stdlib"], code));
    let exported = sessions(&place, &["export", "last"]).stdout;
    assert!(!exported.contains("_put_file"), "{exported}");
}

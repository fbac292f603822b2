//! Peers whose messages have so many small values that they would take gigabytes of memory once they are parsed.

use crate::address::{EVENTS, JSON, address};
use crate::support::{Listening, TOKEN, crooked, runner, runner_of, text, wait};
use cellblock_mcp::{RemoteServer, connect};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const LEFT_OUT: &str =
    "it sent a message whose values would take more than 128 MiB of memory, which was left out";
/// The text itself, which some layers hold twice, and the values that are allowed. Unbounded it is more than 3 GiB.
const MAX_PEAK: usize = 600 << 20;

/// 45 MB of empty lists.
fn small_values() -> String {
    format!("[{}[]]", "[],".repeat(15_000_000))
}

/// Runs the work of a test in a process of its own, and checks how much memory that process had at most.
fn measure(test: &str, work: impl FnOnce()) {
    const MARK: &str = "CELLBLOCK_TEST_MEASURES_MEMORY";
    if std::env::var_os(MARK).is_none() {
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        let name = format!("small_values::{test}");
        let output = alone.args(["--exact", &name]).env(MARK, "1").output();
        let output = output.unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
        return;
    }
    work();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let peak: usize = line
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    assert!(peak << 10 < MAX_PEAK, "the process had {} MiB", peak >> 10);
}

/// Checks that one call is refused, and the next one works.
fn assert_refused_once(server: RemoteServer, tool: &str) {
    let (runner, connected) = runner_of([server]);
    let said = text(&runner, tool, json!({}));
    assert!(said.contains(LEFT_OUT), "{said}");
    assert_eq!(text(&runner, tool, json!({})), "done");
    wait(connected.close());
}

#[test]
fn those_in_an_answer_of_a_program_are_not_parsed() {
    measure("those_in_an_answer_of_a_program_are_not_parsed", || {
        assert_refused_once(crooked("small values"), "crooked_work");
    });
}

#[test]
fn those_in_a_notification_of_a_program_are_not_parsed() {
    measure(
        "those_in_a_notification_of_a_program_are_not_parsed",
        || {
            assert_refused_once(crooked("small values in a notification"), "crooked_work");
        },
    );
}

#[test]
fn those_in_the_list_of_a_program_are_named_at_once() {
    measure("those_in_the_list_of_a_program_are_named_at_once", || {
        let connected = wait(connect([crooked("small values in the list")]));
        let said = connected.problems[0].to_string();
        assert!(said.contains(LEFT_OUT), "{said}");
    });
}

/// A server with an address whose first call is answered by small values, and the others as they should be.
fn far(head: &'static str, before: &'static str, after: &'static str) -> RemoteServer {
    let calls = AtomicUsize::new(0);
    address(move |mut stream, id| {
        let result = match calls.fetch_add(1, Relaxed) {
            0 => format!(
                r#"{{"content": [], "structuredContent": {{"x": {}}}}}"#,
                small_values()
            ),
            _ => r#"{"content": [{"type": "text", "text": "done"}]}"#.to_owned(),
        };
        let _ = write!(
            stream,
            r#"{head}{before}{{"jsonrpc": "2.0", "id": {id}, "result": {result}}}{after}"#
        );
    })
}

#[test]
fn those_in_an_answer_of_an_address_are_not_parsed() {
    measure("those_in_an_answer_of_an_address_are_not_parsed", || {
        assert_refused_once(far(JSON, "", ""), "far_work");
        assert_refused_once(far(EVENTS, "data: ", "\n\n"), "far_work");
    });
}

#[test]
fn those_in_a_notification_of_an_address_are_not_parsed() {
    measure(
        "those_in_a_notification_of_an_address_are_not_parsed",
        || {
            let server = address(|mut stream, id| {
                let result = json!({"content": [{"type": "text", "text": "done"}]});
                let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
                let _ = write!(
                    stream,
                    r#"{EVENTS}data: {{"jsonrpc": "2.0", "method": "notifications/message", "params": {}}}"#,
                    small_values()
                );
                let _ = write!(stream, "\n\ndata: {answer}\n\n");
            });
            let connected = wait(connect([server]));
            assert_eq!(text(&runner(&connected), "far_work", json!({})), "done");
            wait(connected.close());
        },
    );
}

#[test]
fn those_of_a_client_with_the_token_are_not_parsed() {
    measure("those_of_a_client_with_the_token_are_not_parsed", || {
        let listening = Listening::new(|_| {});
        let params = json!({"name": "compute", "arguments": {"code": Value::Null}}).to_string();
        let body = format!(
            r#"{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}}"#,
            params.replace("null", &small_values())
        );
        for (body, expected) in [
            (body.as_str(), "HTTP/1.1 413 "),
            // The server goes on.
            ("{}", "HTTP/1.1 4"),
        ] {
            let mut stream = TcpStream::connect(listening.address).unwrap();
            let head = format!(
                "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).unwrap();
            // The server may refuse it before it has read everything.
            let _ = stream.write_all(body.as_bytes());
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            assert!(answer.starts_with(expected), "{answer}");
            if body.len() > 2 {
                assert!(
                    answer.contains(
                        "the values of the message would take more than 128 MiB of memory"
                    ),
                    "{answer}"
                );
            }
        }
        listening.stop();
    });
}

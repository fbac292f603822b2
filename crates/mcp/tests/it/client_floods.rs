//! Other servers that send far more than they are asked for. Each is ended with a reason, and everything else goes on.

use crate::address::{EVENTS, address};
use crate::support::{crooked, eventually, runner, runner_of, text, wait};
use cellblock_mcp::{Connected, MessageLimit, RemoteServer, connect};
use serde_json::json;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

const TOO_MANY: &str = "messages that answer no call, or more than";
const UNREAD: &str = "it has sent 1000 requests whose answers it does not read, and was ended";

/// Checks that a call of a server fails for this reason, that the server is ended, and that everything else goes on.
fn assert_ended(server: RemoteServer, reason: &str) {
    let (runner, connected) = runner_of([server]);
    let said = text(&runner, "crooked_work", json!({}));
    assert!(said.contains(reason), "{said}");
    let code = json!({"python_code_snippet": "print(6 * 7)"});
    let said = text(&runner, "execute_python_code", code);
    assert!(said.contains("42"), "{said}");
    eventually("its program is ended", || {
        let said = text(&runner, "crooked_work", json!({}));
        said.contains("it is not there: ") && said.contains(reason)
    });
    wait(connected.close());
}

/// The server with limits that end it for its fault, also on a machine that is too busy to read many messages in a second.
fn patient(mut server: RemoteServer) -> RemoteServer {
    server.message_limit = MessageLimit {
        per_second: 20,
        ..MessageLimit::default()
    };
    server.start_limit = Duration::from_secs(600);
    server.call_limit = Duration::from_secs(600);
    server.unread_limit = Duration::from_secs(600);
    server
}

#[test]
fn a_server_that_floods_is_ended_and_the_session_goes_on() {
    for fault in ["flood", "chatter flood", "answers flood"] {
        assert_ended(patient(crooked(fault)), TOO_MANY);
    }
}

#[test]
fn a_server_that_sends_long_lines_is_ended() {
    assert_ended(patient(crooked("long lines")), TOO_MANY);
}

#[test]
fn a_server_that_ends_no_line_is_ended() {
    let (runner, connected) = runner_of([patient(crooked("line without end"))]);
    let said = text(&runner, "crooked_work", json!({}));
    assert!(said.contains("longer than 48 MiB"), "{said}");
    eventually("its program is ended", || {
        let said = text(&runner, "crooked_work", json!({}));
        said.contains("it is not there: ") && said.contains(TOO_MANY)
    });
    wait(connected.close());
}

#[test]
fn a_server_that_reads_no_answers_is_ended() {
    assert_ended(patient(crooked("requests")), UNREAD);
}

#[test]
fn a_server_that_reads_no_answers_and_has_one_id_for_all_requests_is_ended() {
    assert_ended(patient(crooked("same id")), UNREAD);
}

#[test]
fn a_server_that_cancels_requests_whose_answers_it_does_not_read_is_ended() {
    assert_ended(patient(crooked("cancelled requests")), UNREAD);
}

#[test]
fn a_server_whose_request_has_a_long_id_is_ended() {
    assert_ended(
        crooked("long request"),
        "it sent a request whose id or method is longer than 256 bytes, and was ended",
    );
}

#[test]
fn a_server_that_reads_nothing_is_ended() {
    let mut server = crooked("no messages");
    server.unread_limit = Duration::from_millis(500);
    assert_ended(server, "it reads nothing, and was ended");
}

#[test]
fn long_answers_of_calls_are_not_counted() {
    let (runner, connected) = runner_of([crooked("large answers")]);
    for call in 0..12 {
        let said = text(&runner, "crooked_work", json!({}));
        assert!(said.starts_with("xxx"), "{call}: {:.300}", said);
    }
    wait(connected.close());
}

#[test]
fn a_server_that_floods_before_it_is_there_is_named() {
    let connected = wait(connect([patient(crooked("early flood"))]));
    let said = connected.problems[0].to_string();
    assert!(said.contains(TOO_MANY), "{said}");
}

#[test]
fn a_server_may_send_many_messages_at_once() {
    let (runner, connected) = runner_of([crooked("progress")]);
    assert_eq!(text(&runner, "crooked_work", json!({})), "done");
    wait(connected.close());
}

#[test]
fn a_list_without_end_is_cut() {
    let connected = wait(connect([crooked("pages")]));
    let said = connected.problems[0].to_string();
    assert!(said.contains("more than 100 pages"), "{said}");
    let connected = wait(connect([crooked("long list")]));
    let said = connected.problems[0].to_string();
    assert!(
        said.contains("take more than 4 MiB; the rest is left out"),
        "{said}"
    );
    assert_eq!(connected.tools.len(), 3);
    let (runner, connected) = runner_of([crooked("documents")]);
    let listed = text(&runner, "crooked_list_resources", json!({}));
    assert!(listed.contains("a:0"), "{}", listed.len());
    assert!(runner.registry().get("crooked_work").is_some());
    wait(connected.close());
}

/// A server with an address that answers a call by this text again and again. The counter tells how many bytes it could send.
fn flooding_address(text: &'static str) -> (RemoteServer, Arc<AtomicUsize>) {
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let server = address(move |mut stream, _| {
        let _ = stream.write_all(EVENTS.as_bytes());
        let texts = text.repeat((1 << 14) / text.len());
        while counter.load(Relaxed) < 200 << 20 && stream.write_all(texts.as_bytes()).is_ok() {
            counter.fetch_add(texts.len(), Relaxed);
        }
    });
    (server, sent)
}

#[test]
fn events_without_end_of_a_server_with_an_address_are_given_up() {
    const NOTE: &str = r#"data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#;
    for text in [
        [NOTE, "\n\n"].concat().leak(),
        // Comments, lines that belong to no event, and events without data.
        ": a comment\n",
        "\n",
        "\r",
        "id: 1\n\n",
    ] {
        let (server, sent) = flooding_address(text);
        let connected = wait(connect([patient(server)]));
        assert_eq!(connected.problems, []);
        let said = text_of_call(&connected);
        assert!(said.contains(TOO_MANY), "{text:?}: {said}");
        // What lies in sockets was sent and not read.
        let sent = sent.load(Relaxed);
        assert!(sent < 60 << 20, "{text:?}: {sent}");
        wait(connected.close());
    }
}

fn text_of_call(connected: &Connected) -> String {
    text(&runner(connected), "far_work", json!({}))
}

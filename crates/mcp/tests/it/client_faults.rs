//! Other servers that do not behave. Every message names the server, and everything else goes on.

use crate::support::{crooked, eventually, runner, runner_of, shop, text, wait};
use cellblock_mcp::{RemoteServer, connect};
use cellblock_test_support::MINUTE;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What is wrong with a server that cannot be used at all.
fn problem(server: RemoteServer) -> String {
    let connected = wait(connect([server]));
    assert_eq!(connected.tools.len(), 0);
    connected.problems[0].to_string()
}

#[test]
fn a_server_that_cannot_be_started_is_named() {
    let nothing: [&str; 0] = [];
    assert_eq!(
        problem(RemoteServer::program("ghost", "/no/such/program", nothing)),
        "the MCP server `ghost`: `/no/such/program` cannot be started: No such file or directory (os error 2)"
    );
    assert_eq!(
        problem(crooked("end")),
        "the MCP server `crooked`: it went away before it said what it offers; it ended with status 4; the last it wrote: no configuration found"
    );
    let nowhere = problem(RemoteServer::address("far", "http://127.0.0.1:9/mcp"));
    assert!(
        nowhere.starts_with("the MCP server `far`: it cannot be reached:"),
        "{nowhere}"
    );
}

#[test]
fn a_server_that_says_nothing_or_nonsense_is_given_up_in_time() {
    let quick = |fault: &str| {
        let mut server = crooked(fault);
        server.start_limit = Duration::from_millis(500);
        server
    };
    let begun = Instant::now();
    let mute = problem(quick("mute"));
    assert!(
        mute.starts_with("the MCP server `crooked`: it did not say what it offers within 0.5 s"),
        "{mute}"
    );
    let nonsense = problem(quick("nonsense"));
    assert!(
        nonsense.contains("it wrote: Welcome to my server!"),
        "{nonsense}"
    );
    assert!(begun.elapsed() < Duration::from_secs(12));
}

/// A server with an address that answers everything with a head and then more and more of the same, up to `most` bytes. What it could send is told
/// by the counter.
fn endless(
    head: &'static str,
    piece: &'static str,
    most: usize,
) -> (RemoteServer, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let _ = connection.read(&mut [0; 65536]);
            let _ = write!(
                connection,
                "HTTP/1.1 200 OK\r\n{head}\r\nConnection: close\r\n\r\n"
            );
            let pieces = piece.repeat(65536 / piece.len());
            while counter.load(Relaxed) < most && connection.write_all(pieces.as_bytes()).is_ok() {
                counter.fetch_add(pieces.len(), Relaxed);
            }
        }
    });
    let server = RemoteServer::address("far", format!("http://{address}/mcp"));
    (server, sent)
}

#[test]
fn an_answer_without_end_is_given_up_when_it_is_too_long() {
    const LIMIT: usize = 48 << 20;
    for (head, piece) in [
        ("Content-Type: application/json", " "),
        ("Content-Type: text/event-stream", "data: x\r\n"),
    ] {
        let (server, sent) = endless(head, piece, 5 * LIMIT);
        let said = problem(server);
        assert!(said.contains("longer than 48 MiB"), "{said}");
        let sent = sent.load(Relaxed);
        // What lies in sockets was sent and not read.
        assert!(sent < 2 * LIMIT, "{head}: {sent} bytes");
    }
}

#[test]
fn the_connection_to_a_server_that_is_given_up_is_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let closed = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        connection.set_read_timeout(Some(MINUTE)).unwrap();
        loop {
            match connection.read(&mut [0; 4096]) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    });
    let mut server = RemoteServer::address("far", format!("http://{address}/mcp"));
    server.start_limit = Duration::from_millis(500);
    assert_eq!(
        problem(server),
        "the MCP server `far`: it did not say what it offers within 0.5 s"
    );
    assert!(closed.join().unwrap(), "the connection is still open");
}

#[test]
fn one_bad_server_does_not_harm_the_others() {
    let connected = wait(connect([crooked("end"), crooked("")]));
    assert_eq!(connected.problems.len(), 1);
    assert_eq!(text(&runner(&connected), "crooked_work", json!({})), "done");
}

#[test]
fn a_tool_that_cannot_be_used_is_left_out() {
    let connected = wait(connect([crooked("tools")]));
    let problems: Vec<String> = connected.problems.iter().map(ToString::to_string).collect();
    assert!(
        problems[0].contains("two tools are called `crooked_a_b`"),
        "{problems:?}"
    );
    assert!(
        problems[1].contains("the tool `crooked_odd`: its schema cannot be used"),
        "{problems:?}"
    );
    let runner = runner(&connected);
    assert!(runner.registry().get("crooked_good").is_some());
    assert!(runner.registry().get("crooked_odd").is_none());
}

#[test]
fn answers_that_are_none_are_named() {
    let said = |fault: &str| {
        let (runner, connected) = runner_of([crooked(fault)]);
        let said = text(&runner, "crooked_work", json!({}));
        wait(connected.close());
        said
    };
    assert_eq!(
        said("no result"),
        "Tool call failed: the MCP server `crooked`: it answered with something that is no result of a call"
    );
    assert_eq!(
        said("no answer of ours"),
        "Tool call failed: the MCP server `crooked`: it refuses: I am confused"
    );
    assert!(said("picture").starts_with(
        "Tool call failed: the MCP server `crooked`: it sent image/png that is not base64:"
    ));
    // What is no message is passed over.
    assert_eq!(said("chatter"), "done");
}

#[test]
fn a_result_of_a_gigabyte_is_left_out() {
    let (runner, _connected) = runner_of([crooked("huge")]);
    assert_eq!(
        text(&runner, "crooked_work", json!({})),
        "Tool call failed: the MCP server `crooked`: it sent a message that is longer than 48 MiB, which was left out"
    );
}

#[test]
fn a_server_that_vanishes_in_the_middle_of_a_call_is_started_again() {
    let Some(shop) = shop() else { return };
    let (runner, connected) = runner_of([shop]);
    let identity = || text(&runner, "shop_identity", json!({}));
    let before = identity();
    let code = json!({"python_code_snippet": "try:\n    shop_die()\nexcept ToolError as error:\n    print(error)"});
    let died = text(&runner, "execute_python_code", code);
    assert!(
        died.contains("the MCP server `shop`: it vanished in the middle of the call: it ended with status 7; the last it wrote: out of stock"),
        "{died}"
    );
    let meanwhile = identity();
    assert!(
        meanwhile.starts_with(
            "Tool call failed: the MCP server `shop`: it is not there: it ended with status 7"
        ),
        "{meanwhile}"
    );
    assert!(
        meanwhile.contains("it is started again in 0."),
        "{meanwhile}"
    );
    eventually("the server is back", || identity().parse::<u32>().is_ok());
    assert_ne!(identity(), before);
    wait(connected.close());
}

#[test]
fn a_server_that_dies_again_and_again_is_left_alone_for_longer_and_longer() {
    let (runner, _connected) = runner_of([crooked("vanish")]);
    let mut pauses = Vec::new();
    for _ in 0..2 {
        eventually("a call is made", || {
            text(&runner, "crooked_work", json!({})).contains("vanished")
        });
        let said = text(&runner, "crooked_work", json!({}));
        let (_, pause) = said.split_once("again in ").unwrap();
        pauses.push(pause.trim_end_matches(" s").parse::<f64>().unwrap());
    }
    assert!(
        pauses[0] <= 0.5 && pauses[1] > 0.5 && pauses[1] <= 1.0,
        "{pauses:?}"
    );
}

#[test]
fn a_slow_call_is_given_up_and_the_next_one_works() {
    let Some(mut shop) = shop() else { return };
    shop.call_limit = Duration::from_millis(500);
    let (runner, _connected) = runner_of([shop]);
    assert_eq!(
        text(&runner, "shop_sleep", json!({"seconds": 30})),
        "Tool call failed: `shop_sleep` did not answer within 0.5 s and was given up"
    );
    assert_eq!(text(&runner, "shop_sleep", json!({"seconds": 0})), "awake");
}

#[test]
fn a_server_ends_with_everything_it_started() {
    let Some(shop) = shop() else { return };
    let (runner, connected) = runner_of([shop]);
    let alive = |process: &str| Path::new("/proc").join(process.trim()).exists();
    let server = text(&runner, "shop_identity", json!({}));
    let child = text(&runner, "shop_child", json!({}));
    assert!(alive(&server) && alive(&child));
    wait(connected.close());
    eventually("they are gone", || !alive(&server) && !alive(&child));
}

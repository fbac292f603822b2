//! A client on two streams, as on standard input and output.

use crate::support::{Ours, eventually, wait};
use cellblock_mcp::{Files, Server};
use cellblock_test_support::runtime;
use cellblock_tools::{Registry, SessionFuture, ToolRunner};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, duplex};
use tokio::task::JoinHandle;

const BUSY: &str = "256 requests are under way; wait for their answers";

struct Client {
    ours: Ours,
    to: DuplexStream,
    from: Lines<BufReader<DuplexStream>>,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Client {
    fn new() -> Client {
        Client::of(Ours::new())
    }

    fn of(ours: Ours) -> Client {
        // What a client sends waits here while the server refuses to read more.
        let (to, input) = duplex(1 << 23);
        let (output, from) = duplex(1 << 16);
        let server = ours.server.clone();
        let serving = runtime().spawn(async move { server.serve_streams(input, output).await });
        let mut client = Client {
            ours,
            to,
            from: BufReader::new(from).lines(),
            serving,
        };
        let greeting = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        client.send(
            &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": greeting})
                .to_string(),
        );
        assert_eq!(client.next()["result"]["serverInfo"]["name"], "cellblock");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        client
    }

    fn send(&mut self, line: &str) {
        wait(async { self.to.write_all(format!("{line}\n").as_bytes()).await }).unwrap();
    }

    fn next(&mut self) -> Value {
        let line = wait(self.from.next_line()).unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Starts a cell, and waits until it has printed.
    fn start(&mut self, code: &str) {
        let call = json!({"name": "execute_python_code", "arguments": {"python_code_snippet": code, "timeout": 600}, "_meta": {"progressToken": 1}});
        self.send(
            &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).to_string(),
        );
        assert_eq!(self.next()["method"], "notifications/progress");
    }
}

#[test]
fn a_client_that_goes_while_a_cell_runs_leaves_nothing() {
    let mut client = Client::new();
    client.start("print('begun', flush=True)\nwhile True: pass");
    assert!(client.ours.has_sessions());
    let Client {
        ours,
        to,
        from,
        serving,
    } = client;
    let begun = Instant::now();
    drop((to, from));
    wait(serving).unwrap().unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(9),
        "{:?}",
        begun.elapsed()
    );
    assert!(!ours.has_sessions());
}

#[test]
fn a_server_that_is_stopped_ends_at_once() {
    let mut client = Client::new();
    client.start("print('begun', flush=True)\nimport time\ntime.sleep(500)");
    let begun = Instant::now();
    client.ours.server.stop();
    wait(client.serving).unwrap().unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    assert!(!client.ours.has_sessions());
}

#[test]
fn a_client_that_only_looks_gets_no_session() {
    let mut client = Client::new();
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "resources/list"}).to_string());
    assert_eq!(client.next()["result"]["resources"], json!([]));
    client.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string());
    let listed = client.next();
    let tool = &listed["result"]["tools"][0];
    assert_eq!(tool["name"], "execute_python_code");
    let properties: Vec<&String> = tool["inputSchema"]["properties"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    // T4: no purpose.
    assert_eq!(properties, ["python_code_snippet", "timeout", "session"]);
    assert!(!client.ours.has_sessions());
}

#[test]
fn lines_that_are_no_requests_do_no_harm() {
    let mut client = Client::new();
    client.send("hello?");
    client.send("{\"jsonrpc\": \"2.0\"");
    client.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "compute", "arguments": "2+2"}}).to_string());
    let answer = client.next();
    assert_eq!(answer["id"], 2);
    assert_eq!(
        answer["error"]["message"],
        "the parameters of tools/call do not fit: `name` must be a text and `arguments` an object"
    );
    client.send(&json!({"jsonrpc": "2.0", "id": 3, "method": "make/coffee"}).to_string());
    assert_eq!(
        client.next()["error"]["message"],
        "there is no method \"make/coffee\" here"
    );
    let compute = json!({"name": "compute", "arguments": {"code": "2+2", "description": "a sum"}});
    client.send(
        &json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": compute}).to_string(),
    );
    assert_eq!(client.next()["result"]["structuredContent"]["result"], "4");
}

#[test]
fn a_message_that_is_too_large_is_refused() {
    let mut client = Client::new();
    let refused = |client: &mut Client, text: &str, id: Value| {
        client.send(text);
        let answer = client.next();
        assert_eq!(answer["id"], id);
        answer["error"]["message"].as_str().unwrap().to_owned()
    };
    let lists = format!("[{}[]]", "[],".repeat(1_000_000));
    let values = "the values of the message would take more than 128 MiB of memory";
    let text = format!(r#"{{"jsonrpc": "2.0", "id": 2, "method": "x", "params": {lists}}}"#);
    assert_eq!(refused(&mut client, &text, json!(2)), values);
    // Its id comes after the values.
    let text = format!(r#"{{"params": {lists}, "id": 3, "method": "x", "jsonrpc": "2.0"}}"#);
    assert_eq!(refused(&mut client, &text, Value::Null), values);
    let code = "x".repeat(49 << 20);
    let text = format!(r#"{{"jsonrpc": "2.0", "id": 4, "method": "x", "params": "{code}"}}"#);
    assert_eq!(
        refused(&mut client, &text, json!(4)),
        "the message is longer than 48 MiB"
    );
    client.send(&json!({"jsonrpc": "2.0", "id": 5, "method": "ping"}).to_string());
    assert_eq!(
        client.next(),
        json!({"jsonrpc": "2.0", "id": 5, "result": {}})
    );
}

#[test]
fn a_client_that_asks_for_very_much_at_once_is_told_to_wait() {
    let mut client = Client::new();
    client.start("print('begun', flush=True)\nimport time\ntime.sleep(600)");
    let call = json!({"name": "execute_python_code", "arguments": {"python_code_snippet": "1"}});
    for id in 10..400 {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call});
        client.send(&request.to_string());
    }
    // An id that is under way is not taken a second time.
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string());
    let mut refusals = Vec::new();
    while refusals.len() < 136 {
        let answer = client.next();
        if let Some(message) = answer["error"]["message"].as_str() {
            refusals.push((answer["id"].clone(), message.to_owned()));
        }
    }
    let expected: Vec<(Value, String)> = (265..400)
        .map(|id| (json!(id), BUSY.to_owned()))
        .chain([(json!(1), "a request with this id is under way".to_owned())])
        .collect();
    assert_eq!(refusals, expected);
    // The first call gets no answer, and all others that were taken get theirs.
    let params = json!({"requestId": 1});
    client.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
            .to_string(),
    );
    let mut answered: Vec<u64> = Vec::new();
    while answered.len() < 255 {
        answered.extend(client.next()["id"].as_u64());
    }
    answered.sort_unstable();
    assert_eq!(answered, (10..265).collect::<Vec<u64>>());
    // There is room again.
    client.send(&json!({"jsonrpc": "2.0", "id": 500, "method": "tools/list"}).to_string());
    assert_eq!(client.next()["id"], 500);
}

#[test]
fn a_client_that_cancels_what_it_does_not_read_is_told_to_wait() {
    let mut client = Client::new();
    for round in 0..20 {
        // With long ids, few answers fit between the server and the client.
        let ids: Vec<String> = (0..100)
            .map(|n| format!("{:01000}", round * 100 + n))
            .collect();
        for id in &ids {
            client.send(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string());
        }
        // A request that is cancelled at once gets no answer.
        thread::sleep(Duration::from_millis(100));
        for id in &ids {
            let params = json!({"requestId": id});
            client.send(
                &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
                    .to_string(),
            );
        }
    }
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string());
    let mut refused = 0;
    loop {
        let answer = client.next();
        refused += usize::from(answer["error"]["message"] == BUSY);
        if answer["id"] == 1 {
            break;
        }
    }
    assert!(refused > 0);
}

/// Tells when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// A server whose clients have files, and wait for ever for their session. Tells whether a client waits, and whether it has stopped to wait.
fn without_end() -> (Ours, Arc<AtomicBool>, Arc<AtomicBool>) {
    let (waits, stopped) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let (begun, ended) = (Arc::clone(&waits), Arc::clone(&stopped));
    let open = move || -> SessionFuture {
        let (begun, ended) = (Arc::clone(&begun), Dropped(Arc::clone(&ended)));
        Box::pin(async move {
            begun.store(true, SeqCst);
            let _ended = ended;
            std::future::pending().await
        })
    };
    let server = Server::new(Files::Given, move |_| {
        let registry = Registry::builder().built_in().build().unwrap();
        let runner = ToolRunner::builder(registry).open_sessions(open.clone());
        runner.build()
    });
    let runners = Arc::default();
    (Ours { server, runners }, waits, stopped)
}

#[test]
fn a_request_for_resources_stops_when_it_is_cancelled() {
    let uri = json!({"uri": "workspace://main/table.csv"});
    for (method, params) in [("resources/list", json!({})), ("resources/read", uri)] {
        let (ours, waits, stopped) = without_end();
        let mut client = Client::of(ours);
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        client.send(&request.to_string());
        eventually("the request waits", || waits.load(SeqCst));
        assert!(!stopped.load(SeqCst));
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
        client.send(&cancelled.to_string());
        eventually("the request stops", || stopped.load(SeqCst));
        // Another request of that kind waits as well, until the server is stopped.
        stopped.store(false, SeqCst);
        waits.store(false, SeqCst);
        client.send(&request.to_string());
        eventually("the request waits", || waits.load(SeqCst));
        client.ours.server.stop();
        eventually("the request stops", || stopped.load(SeqCst));
    }
}

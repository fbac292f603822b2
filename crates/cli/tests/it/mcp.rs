//! `cellblock mcp`: the real program and its clients.

use crate::support::{CELLBLOCK, Pipe, Place, signal};
use cellblock::env::{Cancel, Environments, Requirements, Search};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn serve(place: &Place, arguments: &[&str]) -> Pipe {
    let first = ["mcp", "--stdlib"];
    let mut command = place.command(first.iter().chain(arguments));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut client = Pipe {
        input: child.stdin.take(),
        output: BufReader::new(child.stdout.take().unwrap()),
        child,
    };
    let greeting = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let said =
        client.ask(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": greeting}));
    assert_eq!(said["result"]["serverInfo"]["name"], "cellblock");
    client.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    client
}

fn call(name: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments, "_meta": {"progressToken": 1}}})
}

#[test]
fn a_client_on_standard_input_is_served_until_its_last_word() {
    let place = Place::new();
    fs::create_dir(place.path().join("files")).unwrap();
    fs::write(place.path().join("files/notes.txt"), "hello").unwrap();
    let mut client = serve(&place, &["--workspace", "files"]);
    let listed = client.ask(json!({"jsonrpc": "2.0", "id": 1, "method": "resources/list"}));
    let resources = listed["result"]["resources"].as_array().unwrap();
    let uris: Vec<&Value> = resources.iter().map(|resource| &resource["uri"]).collect();
    assert!(
        uris.contains(&&json!("workspace://main/notes.txt")),
        "{uris:?}"
    );
    let code = json!({"python_code_snippet": "open('notes.txt').read().upper()"});
    let answer = client.ask(call("execute_python_code", code));
    assert_eq!(
        answer["result"]["content"][0]["text"],
        "## Code execution succeeded\n### Value:\n'HELLO'"
    );
    let (rest, status) = client.end();
    assert_eq!((rest, status), (vec![], Some(0)));
}

#[test]
fn a_client_that_meets_a_limit_is_told_the_flag_of_the_server() {
    let mut client = serve(&Place::new(), &[]);
    let mut last_part_after = |code: &str| {
        let arguments = json!({ "python_code_snippet": code });
        let mut answer = client.ask(call("execute_python_code", arguments));
        answer["result"]["content"]
            .as_array_mut()
            .and_then(Vec::pop)
            .unwrap()["text"]
            .take()
    };
    assert_eq!(
        last_part_after("bytearray(200 << 30)"),
        "Hint: the person who set this server up can start `cellblock mcp` with --memory 8GB to allow more."
    );
    let unrelated = last_part_after("1 / 0");
    let text = unrelated.as_str().unwrap();
    assert!(text.contains("ZeroDivisionError"), "{text}");
}

#[test]
fn clients_install_packages_only_where_the_user_said_so_beforehand() {
    let place = Place::new();
    fs::write(
        place.path().join("config.toml"),
        "[approval.rules]\ninstall_packages = \"allow\"\n",
    )
    .unwrap();
    let offered = |arguments: &[&str]| {
        let mut client = serve(&place, arguments);
        let listed = client.ask(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
        let tools = listed["result"]["tools"].as_array().unwrap().clone();
        tools.iter().any(|tool| tool["name"] == "install_packages")
    };
    assert!(!offered(&[]));
    assert!(offered(&["--config", "config.toml"]));
    assert!(offered(&["--approve", "never"]));
}

#[test]
fn a_signal_ends_it_in_the_middle_of_a_cell() {
    let place = Place::new();
    let mut client = serve(&place, &[]);
    let code = "print('begun', flush=True)\nwhile True: pass";
    client.send(call(
        "execute_python_code",
        json!({"python_code_snippet": code, "timeout": 600}),
    ));
    // Before the output a notification may tell that the cell has started.
    while client.next()["params"]["message"] != "begun\n" {}
    let asked = Instant::now();
    signal(&client.child, "TERM");
    assert_eq!(client.child.wait().unwrap().code(), Some(143));
    assert!(
        asked.elapsed() < Duration::from_secs(5),
        "{:?}",
        asked.elapsed()
    );
}

#[test]
fn servers_that_we_started_end_with_us_however_we_end() {
    let place = Place::new();
    let script = include_str!("../../../mcp/tests/it/peers/crooked.py");
    fs::write(place.path().join("crooked.py"), script).unwrap();
    // It does not care that nobody speaks to it any more.
    let config = "[mcp.servers.peer]\ncommand = \"python3\"\nargs = [\"crooked.py\", \"stay\"]\ndirectory = \".\"\ntrust = \"everything\"\n";
    fs::write(place.path().join("config.toml"), config).unwrap();
    let mut client = serve(&place, &["--config", "config.toml"]);
    let answer = client.ask(call("peer_work", json!({})));
    let process = answer["result"]["content"][0]["text"].as_str().unwrap();
    let process = Path::new("/proc").join(process);
    assert!(process.exists());
    client.child.kill().unwrap();
    client.child.wait().unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    while process.exists() {
        assert!(Instant::now() < until, "it is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_server_that_starts_itself_is_stopped_at_the_second_level() {
    let place = Place::new();
    let config = format!(
        "[mcp.servers.again]\ncommand = {CELLBLOCK:?}\nargs = [\"mcp\", \"--stdlib\", \"--config\", {:?}]\n",
        place.path().join("config.toml")
    );
    fs::write(place.path().join("config.toml"), config).unwrap();
    let ended = place.run(["tools", "--config", "config.toml"]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("again_compute"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("again_again"), "{}", ended.stdout);
}

#[test]
fn http_is_for_this_machine_and_for_who_has_the_token() {
    let place = Place::new();
    let refused = place.run(["mcp", "--http", "0.0.0.0:0"]);
    assert_eq!(refused.status, 2);
    assert!(
        refused.stderr.starts_with("error: --http 0.0.0.0:0: other machines reach this address\nhint: use 127.0.0.1, or say --allow-remote"),
        "{}",
        refused.stderr
    );
    let mut command = place.command(["mcp", "--stdlib", "--http", "127.0.0.1:0"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = said.next().unwrap().unwrap();
    let address = first.strip_prefix("serving at http://").unwrap();
    let address = address.strip_suffix("/mcp").unwrap();
    let token = said.next().unwrap().unwrap();
    assert_eq!(token.strip_prefix("token: ").map(str::len), Some(48));
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_client_made_with_the_official_sdk_finds_everything_on_standard_input_too() {
    let interpreter = Search::from_process().unwrap().find().unwrap();
    let wanted = Requirements::new(["mcp==2.3.0"]).with_imports(["mcp"]);
    let environments = Environments::from_process().unwrap();
    let made = environments.make(&interpreter, &wanted, &Cancel::new(), &mut |_| {});
    let environment = match made {
        Ok(environment) => environment,
        Err(error) if std::env::var_os("CI").is_some() => panic!("there is no SDK: {error}"),
        Err(error) => return eprintln!("skipped, since the SDK cannot be installed: {error}"),
    };
    let place = Place::new();
    let script = place.path().join("visitor.py");
    let text = include_str!("../../../mcp/tests/it/peers/visitor.py");
    fs::write(&script, text).unwrap();
    for scene in ["tour-auto", "tour-legacy", "progress-auto", "cancel-auto"] {
        let output = Command::new(&environment.python)
            .arg(&script)
            .args([scene, CELLBLOCK, "mcp", "--stdlib"])
            .envs(place.variables())
            .current_dir(place.path())
            .output()
            .unwrap();
        let seen: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{scene}: {}", String::from_utf8_lossy(&output.stderr)));
        match scene.split('-').next() {
            Some("tour") => assert_eq!(
                seen["in main"],
                "## Code execution succeeded\n### Value:\n(20, 'hello')"
            ),
            Some("progress") => assert_eq!(seen["messages"], json!(["one\n", "two\n"])),
            _ => assert_eq!(seen["soon"], true),
        }
    }
}

/// The server between the two: it starts the one that is refused, and shows what that said.
#[test]
fn a_configuration_that_names_this_server_itself_is_told_why_it_does_not_work() {
    let place = Place::new();
    let config = place.path().join("config.toml");
    let server = format!(
        "[mcp.servers.own]\ncommand = {CELLBLOCK:?}\nargs = [\"mcp\", \"--stdlib\", \"--config\", {config:?}]\n"
    );
    fs::write(&config, server).unwrap();
    let mut command = place.command(["mcp", "--stdlib", "--config", config.to_str().unwrap()]);
    let ended = command
        .env("CELLBLOCK_MCP_NESTING", "1")
        .stdin(Stdio::null())
        .output();
    let said = String::from_utf8(ended.unwrap().stderr).unwrap();
    let reason = "error: this server was started by a server that Cellblock started: its configuration names `cellblock mcp` itself; hint: remove that server";
    assert!(said.contains(reason), "{said}");
}

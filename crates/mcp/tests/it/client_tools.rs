//! Other servers that behave.

use crate::support::{Listening, TOKEN, python, runner, runner_of, script, shop, text, wait};
use cellblock_mcp::{RemoteServer, ServerTransport, Trust, connect};
use cellblock_tools::{Call, Effects, Part};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

#[test]
fn the_tools_of_a_program_are_tools_of_ours() {
    let Some(shop) = shop() else { return };
    let (runner, connected) = runner_of([shop]);
    let add = runner.registry().get("shop_add").unwrap();
    assert_eq!(add.description, "Adds two numbers.");
    assert_eq!(add.parameters["required"], json!(["a", "b"]));

    let answer = wait(runner.call(Call::by_user("shop_add", json!({"a": 2, "b": "3"}))));
    assert_eq!(
        answer.outcome.unwrap().structured,
        Some(json!({"result": 5}))
    );
    let wrong = text(&runner, "shop_add", json!({"a": "two"}));
    assert!(
        wrong.starts_with("Tool call failed: the arguments of `shop_add` do not fit:"),
        "{wrong}"
    );
    assert!(
        wrong.contains("`a`") && wrong.contains("missing field `b`"),
        "{wrong}"
    );
    let failed = text(&runner, "shop_fail", json!({}));
    assert!(failed.contains("the shop is closed"), "{failed}");
    wait(connected.close());
}

#[test]
fn code_in_a_session_calls_them_too() {
    let Some(shop) = shop() else { return };
    let (runner, _connected) = runner_of([shop]);
    let code = "print(sum(shop_add(a=n, b=1)['result'] for n in range(5)))";
    let read = text(
        &runner,
        "execute_python_code",
        json!({"python_code_snippet": code}),
    );
    assert!(read.ends_with("\n15"), "{read}");
}

#[test]
fn pictures_and_resources_come_along() {
    let Some(shop) = shop() else { return };
    let (runner, _connected) = runner_of([shop]);
    let answer = wait(runner.call(Call::by_user("shop_picture", json!({}))));
    let pictures: Vec<&Part> = answer.attachments().collect();
    assert!(
        matches!(pictures[..], [Part::Blob { mime, data, .. }] if mime == "image/png" && data.starts_with(b"\x89PNG"))
    );

    let listed = text(&runner, "shop_list_resources", json!({}));
    assert!(listed.contains("note://today"), "{listed}");
    let read = text(
        &runner,
        "shop_read_resource",
        json!({"uri": "note://today"}),
    );
    assert_eq!(read, "pears and plums");
    let missing = text(
        &runner,
        "shop_read_resource",
        json!({"uri": "note://never"}),
    );
    assert!(
        missing.starts_with("Tool call failed: the MCP server `shop`: it refuses:"),
        "{missing}"
    );
}

#[test]
fn a_program_sees_nothing_of_our_environment_but_the_usual() {
    let Some(mut shop) = shop() else { return };
    if let ServerTransport::Program { environment, .. } = &mut shop.transport {
        environment.insert("SHOP_KEY".to_owned(), "s3cret".to_owned());
    }
    let (runner, _connected) = runner_of([shop]);
    let answer = wait(runner.call(Call::by_user("shop_environment", json!({}))));
    let structured = answer.outcome.unwrap().structured.unwrap();
    let names: Vec<&str> = structured["result"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(
        names.contains(&"SHOP_KEY") && names.contains(&"PATH"),
        "{names:?}"
    );
    let usual = [
        "CELLBLOCK_MCP_NESTING",
        "HOME",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "LOGNAME",
        "PATH",
        "SHOP_KEY",
        "TMPDIR",
        "TZ",
        "USER",
    ];
    assert!(names.iter().all(|name| usual.contains(name)), "{names:?}");
}

#[test]
fn only_what_a_server_calls_read_only_runs_unasked() {
    let Some(mut shop) = shop() else { return };
    shop.trust = Trust::Hints;
    shop.only = vec!["add".to_owned(), "sleep".to_owned()];
    let (runner, _connected) = runner_of([shop]);
    let effects = |name: &str| runner.registry().get(name).map(|tool| tool.effects);
    assert_eq!(effects("shop_add"), Some(Effects::None));
    assert_eq!(effects("shop_sleep"), Some(Effects::Outside));
    assert_eq!(effects("shop_die"), None);
    let refused = text(&runner, "shop_sleep", json!({"seconds": 0}));
    assert!(refused.contains("no person can be asked"), "{refused}");
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn shop_at(port: u16) -> Option<Killed> {
    let child = Command::new(python()?)
        .args([script("shop.py"), "http".to_owned(), port.to_string()])
        .stderr(Stdio::null())
        .spawn();
    // A busy machine needs its time to start Python.
    for _ in 0..4800 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    Some(Killed(child.unwrap()))
}

#[test]
fn a_server_behind_an_address_may_go_and_come_back() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let Some(running) = shop_at(port) else { return };
    let mut server = RemoteServer::address("shop", format!("http://127.0.0.1:{port}/mcp"));
    server.trust = Trust::Everything;
    let (runner, _connected) = runner_of([server]);
    let added = || text(&runner, "shop_add", json!({"a": 2, "b": 3}));
    assert_eq!(added(), "5");
    let answer = wait(runner.call(Call::by_user("shop_picture", json!({}))));
    assert_eq!(answer.attachments().count(), 1);

    drop(running);
    let gone = added();
    assert!(
        gone.starts_with("Tool call failed: the MCP server `shop`: "),
        "{gone}"
    );
    let _running = shop_at(port);
    // The first call may still meet the old connection.
    let back = (0..40).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        added() == "5"
    });
    assert!(back, "{}", added());
}

#[test]
fn we_are_a_client_of_our_own_server() {
    let listening = Listening::new(|_| {});
    let server = |token: &str| {
        let mut server = RemoteServer::new(
            "cell",
            ServerTransport::Address {
                url: listening.url(),
                token: Some(token.to_owned()),
                headers: BTreeMap::new(),
            },
        );
        server.trust = Trust::Everything;
        server
    };
    let (bench_there, connected) = runner_of([server(TOKEN)]);
    let run = |code: &str| {
        text(
            &bench_there,
            "cell_execute_python_code",
            json!({"python_code_snippet": code}),
        )
    };
    run("x = 6 * 7");
    assert!(run("x").ends_with("\n42"));
    wait(connected.close());

    let refused = wait(connect([server("another token, which is wrong")]));
    assert_eq!(
        refused.problems[0].to_string(),
        "the MCP server `cell`: it wants other credentials: set `token`, `token_env` or `headers`"
    );
    assert_eq!(runner(&refused).registry().get("cell_compute"), None);
    listening.stop();
}

//! Code of a chat reaches for a host that no rule names, and the person at the page decides.

use crate::common::{Caller, TestServer, ended};
use crate::runs::{ask, new_chat, scripted, with};
use axum::http::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// A web server on loopback that answers every request with the same page. Returns its port.
async fn page_server() -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let page =
                "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\nhello page";
            let _ = stream.write_all(page.as_bytes()).await;
        }
    });
    port
}

/// A server whose model fetches the page of this port in every chat.
async fn fetching(port: u16) -> TestServer {
    let code = format!(
        "```python\nimport urllib.request\n\
         try:\n    print(urllib.request.urlopen('http://localhost:{port}/').read().decode())\n\
         except Exception as error:\n    print('refused', error)\n```"
    );
    let replies = [code.as_str(), "Done.", code.as_str(), "Done."];
    TestServer::with(with(scripted(&replies))).await
}

/// Waits until a run asks something, or ends. Returns what it asks.
async fn question(caller: &Caller<'_>, run: &str) -> Option<Value> {
    loop {
        let told = caller.get(&format!("/v1/runs/{run}")).await.json();
        if told["approvals"][0].is_object() {
            return Some(told["approvals"][0].clone());
        }
        if told["status"] != "running" {
            return None;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

async fn events(caller: &Caller<'_>, run: &str) -> String {
    caller.get(&format!("/v1/runs/{run}/events")).await.text()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_opens_a_host_in_the_middle_of_a_cell() {
    let port = page_server().await;
    let server = fetching(port).await;
    let admin = server.admin().await;
    for (decision, expected) in [("accept", "hello page"), ("reject", "refused")] {
        let chat = new_chat(&admin).await;
        let run = ask(&admin, &chat, "?").await;
        let asked = question(&admin, &run).await.expect("a question");
        assert_eq!(asked["tool"], "reach_host", "{asked}");
        let target = json!({"host": "localhost", "port": port});
        assert_eq!(asked["arguments"], target);
        let id = asked["approval"].as_str().expect("an id");
        let path = format!("/v1/runs/{run}/approvals/{id}");
        let decided = admin.post(&path, json!({"decision": decision})).await;
        assert_eq!(decided.status, StatusCode::OK, "{}", decided.text());
        assert_eq!(ended(&admin, &run).await["answer"], "Done.");
        let told = events(&admin, &run).await;
        assert!(told.contains(expected), "{decision}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn code_of_other_users_asks_for_no_host() {
    let port = page_server().await;
    let server = fetching(port).await;
    let admin = server.admin().await;
    let bob = server.user(&admin, "bob").await;
    let chat = new_chat(&bob).await;
    let run = ask(&bob, &chat, "?").await;
    assert_eq!(question(&bob, &run).await, None);
    let told = events(&bob, &run).await;
    assert!(told.contains("refused"), "{told}");
    assert!(!told.contains("hello page"), "{told}");
}

//! Processes beside the interpreter, and terminals by WebSocket.

use crate::common::{Listening, Socket, TestServer};
use axum::http::StatusCode;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use std::time::Duration;
use tokio_tungstenite::tungstenite::{Error, Message};

/// A server on a socket of its own, without a login.
struct OpenServer {
    listening: Listening,
    server: TestServer,
}

impl OpenServer {
    async fn new() -> OpenServer {
        let server = TestServer::with(|options| {
            options.authentication = cellblock_server::Authentication::Off
        })
        .await;
        OpenServer {
            listening: server.listen().await,
            server,
        }
    }

    fn caller(&self) -> crate::common::Caller<'_> {
        self.server.anyone().with("x-cellblock", "1")
    }

    async fn attach(&self, path: &str, origin: Option<&str>) -> Result<Socket, Error> {
        let origin = origin.map(|origin| ("origin".to_owned(), origin.to_owned()));
        let headers: Vec<(String, String)> = origin.into_iter().collect();
        self.listening.try_connect(path, &headers).await
    }
}

/// Everything that a socket tells until it ends: the output, and the last text message.
async fn until_end(socket: &mut Socket) -> (String, Value) {
    let (mut output, mut last) = (Vec::new(), Value::Null);
    while let Some(Ok(message)) = socket.next().await {
        match message {
            Message::Binary(bytes) => output.extend_from_slice(&bytes[1..]),
            Message::Text(text) => last = serde_json::from_str(&text).expect("JSON"),
            Message::Close(_) => break,
            _ => {}
        }
    }
    (String::from_utf8_lossy(&output).into_owned(), last)
}

async fn shell(server: &OpenServer, session: &str, body: Value) -> String {
    let address = format!("/v1/sessions/{session}/processes");
    let made = server.caller().post(&address, body).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
    let name = made.json()["proc"].as_str().expect("a name").to_owned();
    format!("{address}/{name}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_takes_input_and_sizes_and_tells_its_end() {
    let server = OpenServer::new().await;
    let session = server.caller().open().await;
    let body = json!({"argv": ["sh"], "pty": {"cols": 80, "rows": 24}});
    let process = shell(&server, &session, body).await;
    let mut socket = server
        .attach(&format!("{process}/attach"), None)
        .await
        .expect("a socket");
    let resize = json!({"op": "resize", "cols": 101, "rows": 33}).to_string();
    socket.send(Message::text(resize)).await.expect("sent");
    let input = "stty size; echo a$((40 + 2))z; exit 7\n";
    socket.send(Message::binary(input)).await.expect("sent");
    let (output, end) = until_end(&mut socket).await;
    assert!(
        output.contains("33 101") && output.contains("a42z"),
        "{output:?}"
    );
    assert_eq!(
        (&end["event"], &end["exit_code"]),
        (&json!("end"), &json!(7))
    );
    let told = server.caller().get(&process).await.json();
    assert_eq!(told["end"]["exit_code"], 7, "{told}");
    // A second reader gets everything again.
    let mut again = server
        .attach(&format!("{process}/attach"), None)
        .await
        .expect("a socket");
    assert!(until_end(&mut again).await.0.contains("a42z"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_outlives_its_reader_and_is_ended() {
    let server = OpenServer::new().await;
    let session = server.caller().open().await;
    let process = shell(
        &server,
        &session,
        json!({"argv": ["sleep", "600"], "tag": "long"}),
    )
    .await;
    let socket = server
        .attach(&format!("{process}/attach"), None)
        .await
        .expect("a socket");
    drop(socket);
    let list = format!("/v1/sessions/{session}/processes");
    let told = server.caller().get(&list).await.json();
    assert_eq!(told["processes"][0]["tag"], "long", "{told}");
    assert_eq!(
        server.caller().delete(&process).await.status,
        StatusCode::OK
    );
    for _ in 0..200 {
        if server.caller().get(&list).await.json()["processes"] == json!([]) {
            let events = server.caller().get(&process).await.json();
            assert_eq!(events["end"]["status"], "killed", "{events}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the process does not end")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_origin_opens_no_terminal() {
    let server = OpenServer::new().await;
    let session = server.caller().open().await;
    let process = shell(&server, &session, json!({"argv": ["sleep", "600"]})).await;
    let path = format!("{process}/attach");
    let foreign = server.attach(&path, Some("https://evil.example")).await;
    let Err(Error::Http(refusal)) = foreign else {
        panic!("{foreign:?}")
    };
    assert_eq!(refusal.status().as_u16(), 403);
    let own = format!("http://{}", server.listening.address);
    assert!(server.attach(&path, Some(&own)).await.is_ok());
    let plain = server.caller().get(&path).await;
    assert_eq!(plain.status, StatusCode::UPGRADE_REQUIRED);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_session_completes_and_explains_code() {
    let server = TestServer::new().await;
    let ada = server.admin().await;
    let session = ada.open().await;
    ada.run(&session, "import math\ntemperature = 21.5").await;
    let ask = |question: &str| format!("/v1/sessions/{session}/{question}");
    let told = ada
        .post(&ask("complete"), json!({"code": "math.sqr", "pos": 8}))
        .await;
    assert_eq!(told.json()["matches"][0]["text"], "sqrt", "{}", told.text());
    let told = ada
        .post(&ask("complete"), json!({"code": "temper", "pos": 6}))
        .await;
    assert_eq!(told.json()["matches"][0]["text"], "temperature");
    let told = ada
        .post(&ask("inspect"), json!({"code": "math.sqrt", "pos": 9}))
        .await;
    assert_eq!(told.json()["found"], true, "{}", told.text());
    let told = ada
        .post(&ask("is_complete"), json!({"code": "for x in y:"}))
        .await;
    assert_eq!(told.json()["status"], "incomplete", "{}", told.text());
    let wrong = ada
        .post(&ask("inspect"), json!({"code": "x", "pos": 1, "detail": 7}))
        .await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
}

//! WebSockets: refused before the connection becomes one, by the login, by the owner, by the origin.

use super::belongings::{Belongings, callers, server};
use crate::common::{Caller, Listening, TestServer};
use axum::http::StatusCode;
use serde_json::json;
use tokio_tungstenite::tungstenite::Error;

/// The status with which the server answers to a request for a WebSocket.
async fn status(listening: &Listening, path: &str, headers: &[(String, String)]) -> StatusCode {
    match listening.try_connect(path, headers).await {
        Ok(_) => StatusCode::SWITCHING_PROTOCOLS,
        Err(Error::Http(refusal)) => refusal.status(),
        Err(other) => panic!("{path}: {other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_is_refused_before_the_upgrade() {
    let server = server().await;
    let [admin, owner, bob] = callers(&server).await;
    let owned = Belongings::of(&owner).await;
    let before = owned.state(&owner).await;
    let listening = server.listen().await;
    let terminal =
        |session: &str, process: &str| format!("/v1/sessions/{session}/processes/{process}/attach");
    let kernel = |id: &str| format!("/api/kernels/{id}/channels");
    for (real, unknown) in [
        (
            terminal(&owned.session, &owned.process),
            terminal("s1", "p1"),
        ),
        (kernel(&owned.kernel), kernel("k1")),
    ] {
        for path in [&real, &unknown] {
            assert_eq!(
                status(&listening, path, &[]).await,
                StatusCode::UNAUTHORIZED
            );
            for stranger in [&bob, &admin] {
                let refused = status(&listening, path, &stranger.headers).await;
                assert_eq!(refused, StatusCode::NOT_FOUND, "{path}");
            }
        }
        let foreign = owner.clone().with("origin", "https://evil.example");
        let refused = status(&listening, &real, &foreign.headers).await;
        assert_eq!(refused, StatusCode::FORBIDDEN, "{real}");
        let own = format!("http://{}", listening.address);
        let page = owner.clone().with("origin", &own);
        let accepted = status(&listening, &real, &page.headers).await;
        assert_eq!(accepted, StatusCode::SWITCHING_PROTOCOLS, "{real}");
    }
    let after = owned.state(&owner).await;
    for ((path, was), (_, is)) in before.iter().zip(&after) {
        // The kernel tells how many clients it has, and the owner was one a moment ago.
        if path != "/api/kernels" {
            assert_eq!(was, is, "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_in_the_query_counts_for_kernels_alone() {
    let server = server().await;
    let admin = server.admin().await;
    let token = token(&admin).await;
    let kernel = admin.post("/api/kernels", json!({})).await.json()["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let session = admin.open().await;
    let processes = format!("/v1/sessions/{session}/processes");
    let process = admin
        .post(&processes, json!({"argv": ["sleep", "6000"]}))
        .await
        .json()["proc"]
        .as_str()
        .expect("a name")
        .to_owned();
    let listening = server.listen().await;
    let ask = async |path: String| status(&listening, &format!("{path}?token={token}"), &[]).await;
    assert_eq!(
        ask(format!("/api/kernels/{kernel}/channels")).await,
        StatusCode::SWITCHING_PROTOCOLS
    );
    assert_eq!(
        ask(format!("{processes}/{process}/attach")).await,
        StatusCode::UNAUTHORIZED
    );
    for path in ["/v1/sessions", "/v1/me", "/v2/sandboxes", "/mcp"] {
        let path = format!("{path}?token={token}");
        let refused = server.anyone().get(&path).await;
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_of_a_locked_user_opens_no_session() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let bob = server.user(&admin, "bob").await;
    let kernel = bob.post("/api/kernels", json!({})).await.json()["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let user = bob.get("/v1/me").await.json()["user"]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let listening = server.listen().await;
    let path = format!("/api/kernels/{kernel}/channels");
    let socket = listening.try_connect(&path, &bob.headers).await;
    let mut socket = socket.expect("a socket");
    let locked = admin
        .send(
            axum::http::Method::PATCH,
            &format!("/v1/users/{user}"),
            json!({"disabled": true}),
        )
        .await;
    assert_eq!(locked.status, StatusCode::OK, "{}", locked.text());
    // The connection was made before, and is still there. What it asks for now is refused.
    let reply = execute(&mut socket, "open('mark', 'w')").await;
    assert_ne!(reply["content"]["status"], "ok", "{reply}");
    let live = admin.get("/v1/live").await.json();
    assert!(!live.to_string().contains(&user), "{live}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_to_a_widget_is_known_to_its_own_kernel_alone() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let bob = server.user(&admin, "bob").await;
    let listening = server.listen().await;
    let mut own = kernel_of(&admin, &listening).await;
    let open = json!({"comm_id": "widget-1", "target_name": "chart", "data": {}});
    send(&mut own, "comm_open", open).await;
    let expected = json!({"widget-1": {"target_name": "chart"}});
    assert_eq!(comms(&mut own).await, expected);
    let mut other = kernel_of(&bob, &listening).await;
    assert_eq!(comms(&mut other).await, json!({}));
    for id in ["widget-1", "never"] {
        let message = json!({"comm_id": id, "data": {"x": 1}});
        send(&mut other, "comm_msg", message.clone()).await;
        send(&mut other, "comm_close", message).await;
        assert_eq!(comms(&mut other).await, json!({}), "{id}");
    }
    assert_eq!(comms(&mut own).await, expected);
}

/// Starts a kernel and connects to it.
async fn kernel_of(
    caller: &Caller<'_>,
    listening: &crate::common::Listening,
) -> crate::common::Socket {
    let kernel = caller.post("/api/kernels", json!({})).await.json();
    let id = kernel["id"].as_str().expect("an id");
    let path = format!("/api/kernels/{id}/channels");
    let socket = listening.try_connect(&path, &caller.headers).await;
    socket.expect("a socket")
}

/// The channels to widgets that a kernel tells.
async fn comms(socket: &mut crate::common::Socket) -> serde_json::Value {
    send(socket, "comm_info_request", json!({})).await;
    reply(socket, "comm_info_reply").await["content"]["comms"].clone()
}

/// Runs a cell by the messages of a kernel, and returns the reply.
async fn execute(socket: &mut crate::common::Socket, code: &str) -> serde_json::Value {
    let content = json!({
        "code": code, "silent": false, "store_history": true, "user_expressions": {},
        "allow_stdin": false, "stop_on_error": true,
    });
    send(socket, "execute_request", content).await;
    reply(socket, "execute_reply").await
}

/// Sends a message to a kernel. A connection that the server has closed meanwhile takes it as well, and no reply comes.
async fn send(socket: &mut crate::common::Socket, kind: &str, content: serde_json::Value) {
    use futures_util::SinkExt as _;
    use tokio_tungstenite::tungstenite::Message;
    let request = json!({
        "channel": "shell",
        "header": {
            "msg_id": "m1", "msg_type": kind, "session": "c", "username": "",
            "date": "2026-01-01T00:00:00Z", "version": "5.3",
        },
        "parent_header": {}, "metadata": {}, "buffers": [], "content": content,
    });
    let _ = socket.send(Message::text(request.to_string())).await;
}

/// The next reply of this kind.
async fn reply(socket: &mut crate::common::Socket, kind: &str) -> serde_json::Value {
    use futures_util::StreamExt as _;
    use tokio_tungstenite::tungstenite::Message;
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else {
            continue;
        };
        let told: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        if told["header"]["msg_type"] == kind {
            return told;
        }
    }
    json!({"content": {"status": "closed"}})
}

async fn token(caller: &Caller<'_>) -> String {
    let body = json!({"name": "lab", "scopes": ["read", "run"]});
    let made = caller.post("/v1/tokens", body).await.json();
    made["token"].as_str().expect("a token").to_owned()
}

//! Kernels by REST: started, listed, restarted and ended, each by its own user alone.

use crate::common::TestServer;
use axum::http::StatusCode;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_belongs_to_the_user_that_started_it() {
    let server = TestServer::new().await;
    let ada = server.admin().await;
    let bob = server.user(&ada, "bob").await;
    let started = ada.post("/api/kernels", json!({"name": "cellblock"})).await;
    assert_eq!(started.status, StatusCode::CREATED, "{}", started.text());
    let model = started.json();
    let path = format!("/api/kernels/{}", model["id"].as_str().unwrap_or_default());
    assert_eq!(started.header("location"), path);
    assert_eq!(model["name"], "cellblock");
    assert_eq!(bob.get(&path).await.status, StatusCode::NOT_FOUND);
    assert_eq!(bob.delete(&path).await.status, StatusCode::NOT_FOUND);
    assert_eq!(bob.get("/api/kernels").await.json(), json!([]));
    let listed = ada.get("/api/kernels").await.json();
    assert_eq!(listed[0]["id"], model["id"]);

    let restart = ada.post(&format!("{path}/restart"), json!({})).await;
    assert_eq!(restart.status, StatusCode::OK);
    let interrupt = ada.post(&format!("{path}/interrupt"), json!({})).await;
    assert_eq!(interrupt.status, StatusCode::NO_CONTENT);
    assert_eq!(ada.delete(&path).await.status, StatusCode::NO_CONTENT);
    assert_eq!(ada.get(&path).await.status, StatusCode::NOT_FOUND);
    let open = ada.get("/v1/sessions").await.json();
    let is_open = |session: &Value| session["status"] == "open";
    let sessions = open["sessions"].as_array().cloned().unwrap_or_default();
    assert!(!sessions.iter().any(is_open), "{open}");
}

#[tokio::test]
async fn the_jupyter_api_needs_a_login_too() {
    let server = TestServer::new().await;
    server.admin().await;
    for path in ["/api", "/api/kernelspecs", "/api/kernels"] {
        let answer = server.anyone().get(path).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path}");
    }
    let wrong = server.anyone().get("/api/kernels?token=cb_x_y").await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_token_in_the_query_is_that_of_the_header() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let body = json!({"name": "lab", "scopes": ["run"]});
    let token = admin.post("/v1/tokens", body).await.json();
    let token = token["token"].as_str().unwrap_or_default().to_owned();
    let answer = server
        .anyone()
        .get(&format!("/api/kernelspecs?token={token}"))
        .await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    let specs = answer.json();
    assert_eq!(specs["default"], "cellblock");
    assert_eq!(
        specs["kernelspecs"]["cellblock"]["spec"]["language"],
        "python"
    );
}

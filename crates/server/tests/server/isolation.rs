//! Routes without credentials, and the description of all routes. `strangers` asks for what is another user's.

use crate::common::TestServer;
use axum::http::{Method, StatusCode};
use cellblock_server::openapi_document;
use serde_json::{Value, json};

#[tokio::test]
async fn without_credentials_only_public_routes_answer() {
    let server = TestServer::new().await;
    server.admin().await;
    let document = openapi_document();
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let is_public = operation["security"] == json!([]);
            let method: Method = method.to_uppercase().parse().expect("a method");
            let real = path.replace(['{', '}'], "");
            let answer = server.anyone().send(method.clone(), &real, json!({})).await;
            let is_refused = answer.status == StatusCode::UNAUTHORIZED
                && answer.json()["code"] == "unauthenticated";
            assert_eq!(is_refused, !is_public, "{method} {path}: {}", answer.text());
        }
    }
}

#[test]
fn the_committed_description_is_that_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    let made = openapi_document();
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        let text = serde_json::to_string_pretty(&made).expect("JSON") + "\n";
        std::fs::write(path, text).expect("written");
    }
    let committed = std::fs::read_to_string(path).expect("the description");
    let committed: Value = serde_json::from_str(&committed).expect("JSON");
    assert!(
        committed == made,
        "openapi.json is old: run this test with UPDATE_OPENAPI=1 and look at the difference"
    );
}

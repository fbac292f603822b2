//! A user with one of everything, and callers who try every route with each of these ids: another user, the administrator, and a caller
//! without a login. For all of them, what is another user's answers like what never existed, and nothing changes.

pub mod belongings;
mod routes;
mod sockets;

use crate::common::Answer;
use belongings::{Belongings, CompatibleApiRequest, NEVER, callers, server};
use routes::{Substitution, api_requests, compatible_api_paths};

use axum::http::{Method, StatusCode};
use serde_json::json;

/// The methods that are tried on routes which the OpenAPI document does not describe.
const METHODS: [Method; 5] = [
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
];

#[tokio::test(flavor = "multi_thread")]
async fn no_route_of_the_api_tells_another_users_ids_from_ids_that_never_existed() {
    let server = server().await;
    let [admin, owner, bob] = callers(&server).await;
    let owned = Belongings::of(&owner).await;
    let before = owned.state(&owner).await;
    let mut tried = 0;
    for request in api_requests(&owned.substitutions()) {
        let anonymous = server.anyone();
        let answer = request.send(&anonymous, Substitution::Real).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{request:?}");
        // An administrator manages users and nodes, but not what is the users'.
        for (name, caller) in [("another user", &bob), ("the administrator", &admin)] {
            let of_administrators = ["/v1/users", "/v1/nodes"];
            let is_for_administrators = of_administrators
                .iter()
                .any(|path| request.path.starts_with(path));
            if is_for_administrators && name == "the administrator" {
                continue;
            }
            let wanted = match is_for_administrators {
                true => StatusCode::FORBIDDEN,
                false => StatusCode::NOT_FOUND,
            };
            let answer = request.send(caller, Substitution::Real).await;
            let unknown = request.send(caller, Substitution::Unknown).await;
            let text = answer.text();
            assert_eq!(answer.status, wanted, "{name}: {request:?}: {text}");
            assert_eq!(text, unknown.text(), "{name}: {request:?}");
            tried += 1;
        }
    }
    assert!(tried > 50, "{tried}");
    // Ids inside of what is the caller's own.
    let own = Belongings::evaluation(&bob).await;
    let compared = |with: &str| format!("/v1/evaluations/{own}/compare?with={with}");
    let real = bob.get(&compared(&owned.evaluation)).await;
    assert_eq!(real.status, StatusCode::NOT_FOUND);
    assert_eq!(real.text(), bob.get(&compared("e1")).await.text());
    let session = bob.open().await;
    let process = format!("/v1/sessions/{session}/processes/{}", owned.process);
    assert_eq!(bob.delete(&process).await.status, StatusCode::NOT_FOUND);
    assert_eq!(owned.state(&owner).await, before, "something has changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_route_of_a_compatible_api_tells_another_users_ids_from_ids_that_never_existed() {
    let server = server().await;
    let [admin, owner, bob] = callers(&server).await;
    let owned = Belongings::of(&owner).await;
    let before = owned.state(&owner).await;
    let mut tried = 0;
    for path in compatible_api_paths(&[
        "e2b/control.rs",
        "e2b/unsupported.rs",
        "jupyter/mod.rs",
        "librechat/mod.rs",
    ]) {
        if !path.contains('{') {
            continue;
        }
        for CompatibleApiRequest {
            id,
            path: real,
            unknown,
        } in owned.in_compatible_api(&path)
        {
            for method in METHODS {
                let anonymous = server.anyone();
                let answer = anonymous.send(method.clone(), &real, json!({})).await;
                assert_eq!(
                    answer.status,
                    StatusCode::UNAUTHORIZED,
                    "{method} {real}: {}",
                    answer.text()
                );
                for caller in [&bob, &admin] {
                    let answer = caller.send(method.clone(), &real, json!({})).await;
                    let expected = caller.send(method.clone(), &unknown, json!({})).await;
                    let is_refused = matches!(answer.status.as_u16(), 404 | 405 | 501);
                    assert!(is_refused, "{method} {real}: {answer:?}");
                    assert_same(&answer, &id, &expected, NEVER);
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 100, "{tried}");
    // Ids in queries and bodies.
    for (real, unknown) in [
        (owned.sandbox.id.as_str(), "i1"),
        (owned.paused.id.as_str(), "i1"),
        (owned.snapshot.as_str(), "snap1"),
    ] {
        let body = |id: &str| json!({"templateID": id});
        let answer = bob.post("/sandboxes", body(real)).await;
        let expected = bob.post("/sandboxes", body(unknown)).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{}", answer.text());
        assert_same(&answer, real, &expected, unknown);
        for query in [
            "/sandboxes/metrics?sandbox_ids=",
            "/snapshots?sandboxID=",
            "/v2/sandboxes?nextToken=",
        ] {
            let answer = bob.get(&format!("{query}{real}")).await;
            let expected = bob.get(&format!("{query}{unknown}")).await;
            assert_same(&answer, real, &expected, unknown);
        }
    }
    assert_eq!(owned.state(&owner).await, before, "something has changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_service_inside_a_sandbox_answers_a_request_without_its_token() {
    let server = server().await;
    let [_, owner, bob] = callers(&server).await;
    let owned = Belongings::of(&owner).await;
    let before = owned.state(&owner).await;
    let own_token = belongings::sandbox(&bob, json!({"templateID": "base"}))
        .await
        .token;
    let mut tried = 0;
    for (port, file) in [("49983", "e2b/envd.rs"), ("49999", "e2b/code.rs")] {
        for path in compatible_api_paths(&[file]) {
            let path = path
                .replace("{service}/{method}", "process.Process/List")
                .replace("{id}", &owned.context);
            for (method, token) in METHODS
                .into_iter()
                .flat_map(|method| [(method.clone(), None), (method, Some(&own_token))])
            {
                for sandbox in [&owned.sandbox.id, &owned.paused.id] {
                    let ask = async |id: &str| {
                        let mut caller = bob
                            .clone()
                            .with("e2b-sandbox-id", id)
                            .with("e2b-sandbox-port", port);
                        if let Some(token) = token {
                            caller = caller.with("x-access-token", token);
                        }
                        let body = json!({"code": "x = 2", "path": "/tmp"});
                        caller.send(method.clone(), &path, body).await
                    };
                    let (answer, expected) = (ask(sandbox).await, ask("i1").await);
                    let is_refused = matches!(answer.status.as_u16(), 401 | 405 | 502);
                    assert!(is_refused, "{method} {path}: {answer:?}");
                    assert_same(&answer, sandbox, &expected, "i1");
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 100, "{tried}");
    assert_eq!(owned.state(&owner).await, before, "something has changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_client_of_mcp_uses_the_session_of_another_user() {
    let server = server().await;
    let [_, owner, bob] = callers(&server).await;
    let session = belongings::mcp_session(&owner).await;
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let ask = async |caller: &crate::common::Caller<'_>, method: Method, session: &str| {
        let caller = belongings::mcp_client(caller).with("mcp-session-id", session);
        caller.send(method, "/mcp", list.clone()).await
    };
    for method in [Method::POST, Method::GET, Method::DELETE] {
        let answer = ask(&bob, method.clone(), &session).await;
        let expected = ask(&bob, method.clone(), "never").await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method}");
        assert_same(&answer, &session, &expected, "never");
        let anonymous = server.anyone();
        let answer = ask(&anonymous, method, &session).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    }
    let own = ask(&owner, Method::POST, &session).await;
    assert_eq!(own.status, StatusCode::OK, "{}", own.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_that_no_test_here_asks_is_found() {
    // Every file that adds routes beside the table of the OpenAPI document is asked above, or serves nothing of a user.
    let known = [
        "e2b/code.rs",
        "e2b/control.rs",
        "e2b/envd.rs",
        "e2b/unsupported.rs",
        "jupyter/mod.rs",
        "librechat/mod.rs",
        "routes/mod.rs",
        "web/mod.rs",
    ];
    assert_eq!(routes::files_with_routes(), known);
}

/// Checks that two answers differ in nothing but the id that the request named.
fn assert_same(answer: &Answer, id: &str, expected: &Answer, unknown: &str) {
    assert_eq!(answer.status, expected.status, "{id}: {answer:?}");
    let text = answer.text().replace(id, "ID");
    assert_eq!(text, expected.text().replace(unknown, "ID"), "{id}");
}

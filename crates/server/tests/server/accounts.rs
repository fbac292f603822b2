//! Users, logins and tokens.

use crate::common::TestServer;
use axum::http::{Method, StatusCode};
use cellblock_server::{Authentication, ServerOptions, Transport};
use serde_json::{Value, json};

#[tokio::test]
async fn the_one_time_link_makes_one_administrator() {
    let server = TestServer::new().await;
    assert_eq!(
        server.anyone().get("/v1/server").await.json()["needs_setup"],
        true
    );
    let secret = server
        .server
        .first_start_secret()
        .await
        .expect("a store")
        .expect("no user yet");
    let setup = |password: &str| json!({"secret": secret, "name": "ada", "password": password});
    let anyone = server.anyone();
    let short = anyone.post("/v1/setup", setup("short")).await;
    assert_eq!(
        short.status,
        StatusCode::UNPROCESSABLE_ENTITY,
        "a bad password does not use the link up"
    );
    let made = anyone.post("/v1/setup", setup("a long password")).await;
    assert_eq!(made.status, StatusCode::OK, "{}", made.text());
    assert_eq!(made.json()["user"]["role"], "admin");
    assert_eq!(
        anyone
            .post("/v1/setup", setup("a long password"))
            .await
            .status,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(
        server.server.first_start_secret().await.expect("a store"),
        None
    );
    assert_eq!(anyone.get("/v1/server").await.json()["needs_setup"], false);
}

#[tokio::test]
async fn a_login_lasts_until_logout() {
    let server = TestServer::new().await;
    server.admin().await;
    let login = json!({"name": "ADA", "password": "a long password"});
    let answer = server.anyone().post("/v1/login", login).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    let cookie = answer.header("set-cookie").to_owned();
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    let value = cookie.split(';').next().unwrap_or_default();
    let caller = server
        .anyone()
        .with("cookie", value)
        .with("x-cellblock", "1");
    assert_eq!(caller.get("/v1/me").await.json()["user"]["name"], "ada");
    assert_eq!(
        caller.post("/v1/logout", json!({})).await.status,
        StatusCode::OK
    );
    assert_eq!(caller.get("/v1/me").await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn with_tls_the_cookie_is_bound_to_the_host() {
    let server = TestServer::with(|options| options.transport = Transport::BehindTls).await;
    let secret = server
        .server
        .first_start_secret()
        .await
        .expect("a store")
        .expect("no user yet");
    let body = json!({"secret": secret, "name": "ada", "password": "a long password"});
    let answer = server.anyone().post("/v1/setup", body).await;
    let cookie = answer.header("set-cookie");
    assert!(
        cookie.starts_with("__Host-cellblock=") && cookie.ends_with("; Secure"),
        "{cookie}"
    );
    assert_eq!(
        answer.header("strict-transport-security"),
        "max-age=31536000"
    );
}

#[tokio::test]
async fn guessing_passwords_becomes_slow() {
    let server = TestServer::new().await;
    server.admin().await;
    let wrong = |name: &str| json!({"name": name, "password": "a wrong password"});
    let mut last = None;
    for _ in 0..6 {
        last = Some(server.anyone().post("/v1/login", wrong("ada")).await);
    }
    let last = last.expect("an answer");
    assert_eq!(
        last.status,
        StatusCode::TOO_MANY_REQUESTS,
        "{}",
        last.text()
    );
    assert!(
        last.header("retry-after")
            .parse::<u64>()
            .is_ok_and(|seconds| seconds >= 1)
    );
    // Right or wrong does not matter then, and other names are not touched.
    let right = json!({"name": "ada", "password": "a long password"});
    assert_eq!(
        server.anyone().post("/v1/login", right).await.status,
        StatusCode::TOO_MANY_REQUESTS
    );
    let other = server.anyone().post("/v1/login", wrong("bob")).await;
    assert_eq!(other.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_token_does_what_its_scopes_say() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let token = |body: Value| {
        let admin = admin.clone();
        async move {
            let answer = admin.post("/v1/tokens", body).await;
            assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text());
            answer.json()
        }
    };
    let read = token(json!({"name": "reader", "scopes": ["read"]})).await;
    let run = token(json!({"name": "runner"})).await;
    let text = |token: &Value| token["token"].as_str().expect("a token").to_owned();
    assert!(text(&read).starts_with(&format!("cb_{}_", read["id"].as_str().unwrap_or_default())));
    let bearer = |token: &str| {
        server
            .anyone()
            .with("authorization", &format!("Bearer {token}"))
    };
    assert_eq!(
        bearer(&text(&read)).get("/v1/sessions").await.status,
        StatusCode::OK
    );
    let refused = bearer(&text(&read)).post("/v1/sessions", json!({})).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.text());
    assert_eq!(
        bearer(&text(&run)).get("/v1/users").await.status,
        StatusCode::FORBIDDEN
    );
    assert_eq!(
        bearer(&text(&run))
            .post("/v1/tokens", json!({"name": "x"}))
            .await
            .status,
        StatusCode::FORBIDDEN
    );
    let key = server.anyone().with("x-api-key", &text(&run));
    assert_eq!(key.get("/v1/me").await.status, StatusCode::OK);
    // The wrong secret under a right id, an unknown id, and no token at all.
    let id = read["id"].as_str().unwrap_or_default();
    for wrong in [
        format!("cb_{id}_{}", "A".repeat(43)),
        "cb_x_y".to_owned(),
        "secret".to_owned(),
    ] {
        assert_eq!(
            bearer(&wrong).get("/v1/me").await.status,
            StatusCode::UNAUTHORIZED,
            "{wrong}"
        );
    }
    let removed = admin.delete(&format!("/v1/tokens/{id}")).await;
    assert_eq!(removed.status, StatusCode::OK);
    assert_eq!(
        bearer(&text(&read)).get("/v1/me").await.status,
        StatusCode::UNAUTHORIZED
    );
}

#[tokio::test]
async fn an_expired_token_is_refused() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let made = admin
        .post("/v1/tokens", json!({"name": "short", "expires_in": 0}))
        .await
        .json();
    let token = made["token"].as_str().expect("a token");
    let caller = server
        .anyone()
        .with("authorization", &format!("Bearer {token}"));
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    assert_eq!(caller.get("/v1/me").await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_user_who_is_locked_out_is_out_at_once() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let bob = server.user(&admin, "bob").await;
    let made = bob.post("/v1/tokens", json!({"name": "x"})).await.json();
    let token = made["token"].as_str().expect("a token");
    let by_token = server
        .anyone()
        .with("authorization", &format!("Bearer {token}"));
    assert_eq!(by_token.get("/v1/me").await.status, StatusCode::OK);
    let id = bob.get("/v1/me").await.json()["user"]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let change = admin
        .send(
            Method::PATCH,
            &format!("/v1/users/{id}"),
            json!({"disabled": true}),
        )
        .await;
    assert_eq!(change.status, StatusCode::OK, "{}", change.text());
    assert_eq!(bob.get("/v1/me").await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(
        by_token.get("/v1/me").await.status,
        StatusCode::UNAUTHORIZED
    );
}

#[tokio::test]
async fn an_administrator_stays_one() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let id = admin.get("/v1/me").await.json()["user"]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let path = format!("/v1/users/{id}");
    for change in [json!({"disabled": true}), json!({"role": "user"})] {
        assert_eq!(
            admin.send(Method::PATCH, &path, change).await.status,
            StatusCode::CONFLICT
        );
    }
    assert_eq!(admin.delete(&path).await.status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn administration_is_for_administrators() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let bob = server.user(&admin, "bob").await;
    for path in ["/v1/users", "/v1/audit", "/metrics"] {
        assert_eq!(admin.get(path).await.status, StatusCode::OK, "{path}");
        assert_eq!(bob.get(path).await.status, StatusCode::FORBIDDEN, "{path}");
        assert_eq!(
            server.anyone().get(path).await.status,
            StatusCode::UNAUTHORIZED,
            "{path}"
        );
    }
    let token = bob
        .post("/v1/tokens", json!({"name": "x", "scopes": ["admin"]}))
        .await;
    assert_eq!(token.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_proxy_names_the_user() {
    let header = "x-forwarded-user";
    let server = TestServer::with(|options| {
        options.authentication = Authentication::Header(header.into());
        options.admins = vec!["root@example.org".into()];
    })
    .await;
    let caller = |name: &str| server.anyone().with(header, name).with("x-cellblock", "1");
    let bob = caller("bob").get("/v1/me").await.json();
    assert_eq!(
        (&bob["user"]["name"], &bob["user"]["role"]),
        (&json!("bob"), &json!("user"))
    );
    assert_eq!(
        caller("bob").get("/v1/me").await.json()["user"]["id"],
        bob["user"]["id"]
    );
    assert_eq!(
        caller("root@example.org").get("/v1/users").await.status,
        StatusCode::OK
    );
    assert_eq!(
        server.anyone().get("/v1/me").await.status,
        StatusCode::UNAUTHORIZED
    );
    let twice = caller("bob")
        .with(header, "root@example.org")
        .get("/v1/me")
        .await;
    assert_eq!(twice.status, StatusCode::UNAUTHORIZED, "{}", twice.text());
}

#[tokio::test]
async fn without_a_login_everyone_on_this_machine_is_the_administrator() {
    let server = TestServer::with(|options| options.authentication = Authentication::Off).await;
    let me = server.anyone().get("/v1/me").await.json();
    assert_eq!(me["user"]["role"], "admin");
    // A page of a foreign site can send a request, but not this header.
    let bare = server
        .anyone()
        .post("/v1/tokens", json!({"name": "x"}))
        .await;
    assert_eq!(bare.status, StatusCode::FORBIDDEN);
}

#[test]
fn an_address_that_others_reach_needs_a_login_and_tls() {
    let local = "127.0.0.1:80".parse().expect("an address");
    let open = "0.0.0.0:80".parse().expect("an address");
    let mut options = ServerOptions::new("/nowhere");
    assert!(options.check_address(local).is_ok());
    assert!(options.check_address(open).is_err());
    options.transport = Transport::BehindTls;
    assert!(options.check_address(open).is_ok());
    options.authentication = Authentication::Off;
    assert!(options.check_address(open).is_err());
    assert!(options.check_address(local).is_ok());
}

#[tokio::test]
async fn the_audit_log_says_who_did_what() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    server.user(&admin, "bob").await;
    let entries = admin.get("/v1/audit").await.json();
    let told: Vec<(String, String)> = entries["entries"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| {
            (
                entry["user"].as_str().unwrap_or("").into(),
                entry["action"].as_str().unwrap_or("").into(),
            )
        })
        .collect();
    let expected = [
        ("bob", "user.setup"),
        ("ada", "user.add"),
        ("ada", "user.setup"),
    ];
    assert_eq!(
        told,
        expected.map(|(user, action)| (user.to_owned(), action.to_owned()))
    );
}

//! A clock that is set to another time while the server runs.

use crate::common::{Caller, TestServer};
use axum::http::StatusCode;
use cellblock_server::{Clock, ServerOptions};
use serde_json::json;

const DAY: i64 = 24 * 3600;

/// A server with a clock that the test sets.
async fn server(change: impl FnOnce(&mut ServerOptions)) -> (TestServer, Clock) {
    let clock = Clock::default();
    let its_clock = clock.clone();
    let server = TestServer::with(|options| {
        options.clock = its_clock;
        change(options);
    });
    (server.await, clock)
}

async fn is_logged_in(caller: &Caller<'_>) -> bool {
    caller.get("/v1/me").await.status == StatusCode::OK
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_forward_and_back_ends_no_login_no_token_and_no_session() {
    let (server, clock) = server(|_| {}).await;
    let admin = server.admin().await;
    let made = json!({"name": "notebook", "scopes": ["run"], "expires_in": 3 * DAY});
    let token = admin.post("/v1/tokens", made).await.json();
    let bearer = format!("Bearer {}", token["token"].as_str().expect("a token"));
    let program = server.anyone().with("authorization", &bearer);
    let session = admin.open().await;
    admin.run(&session, "x = 41").await;
    for shift in [DAY, -2 * DAY, DAY] {
        clock.shift(shift);
        assert!(is_logged_in(&admin).await, "{shift}");
        assert_eq!(
            program.run(&session, "x += 1; x - x + 1").await["value"]["repr"],
            "1"
        );
        // A new login is as good as the old one.
        let body = json!({"name": "ada", "password": "a long password"});
        let answer = server.anyone().post("/v1/login", body).await;
        assert!(is_logged_in(&server.anyone().logged_in_by(&answer)).await);
    }
    assert_eq!(admin.run(&session, "x").await["value"]["repr"], "44");
}

#[tokio::test]
async fn a_clock_that_was_ahead_by_mistake_ended_no_login_for_good() {
    let (server, clock) = server(|_| {}).await;
    let admin = server.admin().await;
    let user = server.user(&admin, "mei").await;
    clock.shift(20 * DAY);
    assert!(!is_logged_in(&user).await, "a login ends after 14 days");
    let body = json!({"name": "ada", "password": "a long password"});
    let answer = server.anyone().post("/v1/login", body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    clock.shift(-20 * DAY);
    assert!(is_logged_in(&user).await);
}

#[tokio::test]
async fn the_first_administrator_comes_in_after_the_machine_got_the_right_time() {
    let (server, clock) = server(|_| {}).await;
    let secret = server.server.first_start_secret().await.expect("a store");
    let secret = secret.expect("no user yet");
    clock.shift(50 * 365 * DAY);
    let body = json!({"secret": secret, "name": "ada", "password": "a long password"});
    let answer = server.anyone().post("/v1/setup", body.clone()).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    let again = server.anyone().post("/v1/setup", body).await;
    assert_eq!(again.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn when_a_token_was_used_is_never_in_the_future_for_long() {
    let (server, clock) = server(|_| {}).await;
    let admin = server.admin().await;
    let made = json!({"name": "notebook", "scopes": ["read"]});
    let token = admin.post("/v1/tokens", made).await.json();
    let bearer = format!("Bearer {}", token["token"].as_str().expect("a token"));
    let program = server.anyone().with("authorization", &bearer);
    let mut used_at = Vec::new();
    for shift in [0, -DAY] {
        clock.shift(shift);
        assert!(is_logged_in(&program).await);
        let tokens = admin.get("/v1/tokens").await.json();
        used_at.push(tokens["tokens"][0]["used_at"].as_i64().expect("a time"));
    }
    let set_back = used_at[0] - used_at[1];
    assert!((DAY - 60..=DAY).contains(&set_back), "{set_back}");
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_go_on_after_the_clock_was_set() {
    let (server, clock) = server(|options| options.quotas.seconds_per_day = 1).await;
    let admin = server.admin().await;
    let session = admin.open().await;
    let path = format!("/v1/sessions/{session}/cells?wait=1");
    let slow = json!({"code": "import time; time.sleep(1.1)"});
    // The time of a day is used up, there is a new day, and back on the first day it is still used up.
    for (shift, expected) in [
        (0, StatusCode::OK),
        (0, StatusCode::TOO_MANY_REQUESTS),
        (DAY, StatusCode::OK),
        (-DAY, StatusCode::TOO_MANY_REQUESTS),
        (-DAY, StatusCode::OK),
    ] {
        clock.shift(shift);
        let answer = admin.post(&path, slow.clone()).await;
        assert_eq!(answer.status, expected, "{shift}: {}", answer.text());
        if expected == StatusCode::TOO_MANY_REQUESTS {
            let wait: i64 = answer.header("retry-after").parse().expect("seconds");
            assert!((1..=DAY).contains(&wait), "{wait}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cells_a_minute_are_counted_by_another_clock() {
    let (server, clock) = server(|options| options.quotas.cells_per_minute = 3).await;
    let admin = server.admin().await;
    let session = admin.open().await;
    for _ in 0..3 {
        admin.run(&session, "1").await;
    }
    let path = format!("/v1/sessions/{session}/cells?wait=1");
    for shift in [0, DAY, -2 * DAY] {
        clock.shift(shift);
        let answer = admin.post(&path, json!({"code": "1"})).await;
        assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS, "{shift}");
        let wait: i64 = answer.header("retry-after").parse().expect("seconds");
        assert!((1..=60).contains(&wait), "{wait}");
    }
}

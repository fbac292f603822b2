//! Streams of events that are cut and resumed, by many readers at once.

use crate::common::{Caller, TestServer};
use axum::body::Body;
use axum::http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// Reads the events of a session until the event `reset`, with the connection cut after so many frames each time.
async fn read_with_cuts(caller: Caller<'_>, session: &str, cuts: &[usize]) -> Vec<u64> {
    let path = format!("/v1/sessions/{session}/events");
    let mut seqs: Vec<u64> = Vec::new();
    for cut in cuts.iter().cycle() {
        let mut caller = caller.clone();
        if let Some(last) = seqs.last() {
            caller = caller.with("last-event-id", &last.to_string());
        }
        let request = caller.request(Method::GET, &path, Body::empty());
        let response = caller
            .server
            .router
            .clone()
            .oneshot(request)
            .await
            .expect("an answer");
        assert_eq!(response.status(), StatusCode::OK);
        let mut body = response.into_body();
        let mut text = String::new();
        for _ in 0..*cut {
            let Some(Ok(frame)) = body.frame().await else {
                break;
            };
            text.push_str(&String::from_utf8_lossy(frame.data_ref().expect("data")));
            // After it, nothing but signs of life comes.
            if text.contains("event: reset\n") && text.ends_with("\n\n") {
                break;
            }
        }
        // What came is taken only up to the last whole event, as a browser does it.
        let whole = text.rfind("\n\n").map_or("", |end| &text[..end]);
        for data in whole.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let event: Value = serde_json::from_str(data).expect("JSON");
            seqs.push(event["seq"].as_u64().expect("a number"));
            if event["event"] == "reset" {
                return seqs;
            }
        }
    }
    seqs
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_cut_at_random_loses_and_repeats_nothing() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let session = admin.open().await;
    // Each run of the test tries other cuts.
    let mut runner = TestRunner::default();
    let strategy = prop::collection::vec(1_usize..30, 1..6);
    let mut cuts = || strategy.new_tree(&mut runner).expect("cuts").current();
    let readers: Vec<Vec<usize>> = (0..6).map(|_| cuts()).collect();
    let reading = futures_util::future::join_all(
        readers
            .iter()
            .map(|cuts| read_with_cuts(admin.clone(), &session, cuts)),
    );
    let writing = async {
        for _ in 0..2 {
            let code =
                "import time\nfor i in range(40):\n    print(i, flush=True)\n    time.sleep(0.002)";
            admin.run(&session, code).await;
        }
        admin
            .post(&format!("/v1/sessions/{session}/reset"), json!({}))
            .await
    };
    let (read, _) = tokio::join!(reading, writing);
    let last = admin.get(&format!("/v1/sessions/{session}")).await.json()["live"]["seq"]
        .as_u64()
        .expect("a number");
    for (seqs, cuts) in read.iter().zip(&readers) {
        let end = *seqs.last().expect("events");
        assert!(end <= last);
        assert_eq!(*seqs, (1..=end).collect::<Vec<u64>>(), "cut after {cuts:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_readers_see_the_same() {
    let server = TestServer::new().await;
    let admin = server.admin().await;
    let session = admin.open().await;
    let reading =
        futures_util::future::join_all((0..500).map(|_| read_one(admin.clone(), &session)));
    let writing = async {
        admin
            .run(&session, "for i in range(20): print(i, flush=True)")
            .await;
        admin
            .post(&format!("/v1/sessions/{session}/reset"), json!({}))
            .await
    };
    let (read, _) = tokio::join!(reading, writing);
    assert!(read.windows(2).all(|pair| pair[0] == pair[1]));
    assert!(read[0].len() > 2);
}

/// Reads one frame after the other until the event `reset`.
async fn read_one(caller: Caller<'_>, session: &str) -> Vec<u64> {
    let request = caller.request(
        Method::GET,
        &format!("/v1/sessions/{session}/events"),
        Body::empty(),
    );
    let response = caller
        .server
        .router
        .clone()
        .oneshot(request)
        .await
        .expect("an answer");
    let mut body = response.into_body();
    let mut seqs = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let text = String::from_utf8_lossy(frame.data_ref().expect("data")).into_owned();
        for data in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let event: Value = serde_json::from_str(data).expect("JSON");
            seqs.push(event["seq"].as_u64().expect("a number"));
            if event["event"] == "reset" {
                return seqs;
            }
        }
    }
    seqs
}

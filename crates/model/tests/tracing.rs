//! What a call of a model leaves in the trace. A test program of its own, because `tracing` caches for all threads whether a subscriber is interested.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "it/server.rs"]
mod server;

use cellblock_model::openai::{ApiKey, OpenAiModel};
use cellblock_model::{Message, Request, complete};
use cellblock_trace::{Trace, TraceOptions, TraceWriter, default_targets};
use server::{Answer, Server};
use tracing::Instrument as _;
use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt as _;

#[tokio::test]
async fn every_call_leaves_a_span_and_no_key() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("trace.jsonl");
    let writer = TraceWriter::start(&path, TraceOptions::default()).unwrap();
    let layer = writer.layer().with_filter(default_targets());
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let secret = "very-own-key-0123456789";
    let server = Server::start([
        Answer::error(503, "", &format!("busy, {secret}")),
        Answer::text(["4"]),
        Answer::error(401, "", &format!("wrong: {secret}")),
    ])
    .await;
    let key = ApiKey::new(secret, "the variable OPENAI_API_KEY");
    let model = OpenAiModel::new(server.settings().with_key(Some(key))).unwrap();
    let run = tracing::info_span!(target: "cellblock", "run", run = "r");
    async {
        let question = Request::new(vec![Message::user("2 + 2?")]);
        complete(&model, question.clone()).await.unwrap();
        complete(&model, question).await.unwrap_err();
    }
    .instrument(run)
    .await;
    writer.flush();
    let trace = Trace::read(&path, "r").unwrap();
    let seen: Vec<_> = trace.records().iter().map(|it| it.name.as_str()).collect();
    assert_eq!(
        seen,
        [
            "run",
            "model_request",
            "the model is asked again",
            "model_request"
        ]
    );
    let (good, bad) = (&trace.records()[1], &trace.records()[3]);
    assert_eq!(
        (good.fields["attempts"].as_u64(), good.is_failed()),
        (Some(2), false)
    );
    assert!(bad.is_failed());
    assert!(!std::fs::read_to_string(&path).unwrap().contains(secret));
}

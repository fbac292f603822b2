//! Endpoints that refuse, lie, hang and break. Each ends in one message that says what to do.

use crate::server::{Answer, Server, finish_chunk, text_chunk};
use crate::streaming::{events, question};
use cellblock_model::openai::{ApiKey, EndpointSettings, OpenAiModel, RetryPolicy};
use cellblock_model::{ModelError, ReplyEvent, TimeoutPhase, complete};
use serde_json::json;
use std::time::{Duration, Instant};

const SECRET: &str = "sk-test-abcdefghijklmnop";

fn with_key(server: &Server) -> OpenAiModel {
    let key = ApiKey::new(SECRET, "the variable OPENAI_API_KEY");
    OpenAiModel::new(server.settings().with_key(Some(key))).unwrap()
}

async fn error_of(server: &Server) -> ModelError {
    complete(&server.model(), question()).await.unwrap_err()
}

#[tokio::test]
async fn a_wrong_key_is_told_by_its_variable_and_never_shown() {
    let message = format!("Incorrect API key provided: {SECRET}, also sk-test-****mnop.");
    let server = Server::start([Answer::error(401, "invalid_api_key", &message)]).await;
    let error = complete(&with_key(&server), question()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{} does not accept the key from the variable OPENAI_API_KEY: \
             Incorrect API key provided: <key>, also <key>.",
            server.url()
        )
    );
    assert!(!format!("{error:?}").contains("abcdef"));
    assert!(
        server.requests()[0].head.contains(SECRET),
        "but it was sent"
    );
    assert_eq!(server.requests().len(), 1, "a wrong key does not get right");
}

#[tokio::test]
async fn a_missing_key_is_told_with_the_variables() {
    let server = Server::start([Answer::error(401, "", "no key")]).await;
    let error = error_of(&server).await.to_string();
    assert!(
        error.ends_with("set the environment variable CELLBLOCK_API_KEY or OPENAI_API_KEY"),
        "{error}"
    );
}

#[tokio::test]
async fn an_unknown_model_is_told_by_its_name() {
    for answer in [
        Answer::error(
            404,
            "model_not_found",
            "The model `test-model` does not exist",
        ),
        Answer::json(404, json!({"error": "model 'test-model' not found"})),
        Answer::error(400, "", "test-model is not a valid model ID"),
    ] {
        let server = Server::start([answer]).await;
        let error = error_of(&server).await;
        assert!(
            matches!(&error, ModelError::UnknownModel { model, .. } if model == "test-model"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_wrong_path_is_told_with_a_hint() {
    let server = Server::start([Answer::bytes(404, "text/plain", "404 page not found")]).await;
    let error = error_of(&server).await.to_string();
    assert!(
        error.contains("404 page not found; is the base URL right?"),
        "{error}"
    );
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_told_apart() {
    let openai = "This model's maximum context length is 8,192 tokens. However, your messages resulted in 9000 tokens.";
    let llama = json!({"error": {"code": 400, "message": "request (9000 tokens) exceeds the available context size (8192 tokens)",
        "type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 8192}});
    for answer in [
        Answer::error(400, "context_length_exceeded", openai),
        Answer::json(400, llama),
    ] {
        let server = Server::start([answer]).await;
        let error = error_of(&server).await;
        assert!(
            matches!(
                error,
                ModelError::ContextOverflow {
                    limit: Some(8192),
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_server_that_is_down_is_tried_again_and_then_told() {
    // A port that was free a moment ago, and where nobody listens.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let url = format!("http://127.0.0.1:{port}/v1");
    let retries = RetryPolicy {
        max_attempts: 3,
        first_wait: Duration::from_millis(1),
        ..RetryPolicy::default()
    };
    let model = OpenAiModel::new(EndpointSettings {
        retries,
        ..EndpointSettings::new(&url, "m")
    })
    .unwrap();
    let seen = events(&model, question()).await;
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert!(matches!(
        &seen[1],
        Ok(ReplyEvent::Retrying { attempt: 3, .. })
    ));
    let error = seen[2].as_ref().unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("no connection to {url}: ")) && error.contains("refused"),
        "{error}"
    );
}

#[tokio::test]
async fn a_passing_problem_passes() {
    for status in [408, 429, 500, 502, 503, 529] {
        let bad = Answer::bytes(status, "text/html", "<html><body>try later</body></html>");
        let server = Server::start([bad.clone(), bad, Answer::text(["4"])]).await;
        let reply = complete(&server.model(), question()).await.unwrap();
        assert_eq!(
            (reply.text.as_str(), server.requests().len()),
            ("4", 3),
            "{status}"
        );
    }
}

#[tokio::test]
async fn a_lasting_problem_is_told_after_the_last_try() {
    let page = "<html><head><title>502 Bad Gateway</title></head></html>";
    let server = Server::start([Answer::bytes(502, "text/html", page)]).await;
    assert_eq!(
        error_of(&server).await,
        ModelError::Server {
            url: server.url(),
            status: 502,
            message: "502 Bad Gateway".into()
        }
    );
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn retry_after_is_honoured() {
    let busy = Answer::error(429, "rate_limit", "slow down").header("retry-after", "1");
    let server = Server::start([busy, Answer::text(["4"])]).await;
    let began = Instant::now();
    let seen = events(&server.model(), question()).await;
    assert!(
        matches!(seen[0], Ok(ReplyEvent::Retrying { wait_ms: 1000, .. })),
        "{seen:?}"
    );
    assert!(began.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn an_endpoint_that_wants_a_long_rest_is_not_waited_for() {
    let busy =
        Answer::error(429, "rate_limit", "come back tomorrow").header("retry-after", "86400");
    let server = Server::start([busy]).await;
    let error = error_of(&server).await;
    let day = Duration::from_secs(86400);
    assert!(
        matches!(error, ModelError::RateLimited { retry_after: Some(time), .. } if time == day),
        "{error}"
    );
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn an_empty_account_is_not_asked_again() {
    let server = Server::start([Answer::error(
        429,
        "insufficient_quota",
        "You exceeded your quota",
    )])
    .await;
    assert!(matches!(
        error_of(&server).await,
        ModelError::Refused { status: 429, .. }
    ));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_slow_server_times_out_before_the_first_byte() {
    let slow = Answer::unfinished([])
        .wait(Duration::from_secs(30))
        .send("data: [DONE]\n\n");
    let server = Server::start([slow]).await;
    let error = error_of(&server).await;
    assert!(
        matches!(
            error,
            ModelError::TimedOut {
                phase: TimeoutPhase::FirstByte,
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn a_stream_that_hangs_in_the_middle_is_begun_anew() {
    let hanging = Answer::unfinished([text_chunk("The ans")]).then_hangs();
    let server = Server::start([hanging, Answer::text(["The answer."])]).await;
    let seen = events(&server.model(), question()).await;
    assert_eq!(
        seen[0],
        Ok(ReplyEvent::Text {
            text: "The ans".into()
        })
    );
    let reason = format!(
        "{} did not answer: the next part of a reply that had begun took longer than 0.2 s",
        server.url()
    );
    assert!(
        matches!(&seen[1], Ok(ReplyEvent::Retrying { reason: told, .. }) if *told == reason),
        "{seen:?}"
    );
    let Some(Ok(ReplyEvent::Finished { reply })) = seen.last() else {
        panic!("{seen:?}")
    };
    assert_eq!(
        reply.text, "The answer.",
        "nothing of the first try is left"
    );
}

#[tokio::test]
async fn a_stream_that_drips_for_ever_ends_with_the_whole_time() {
    let mut drip = Answer::unfinished([]);
    for _ in 0..40 {
        drip = drip
            .send(": still here\n\n")
            .wait(Duration::from_millis(50));
    }
    let server = Server::start([drip]).await;
    let mut settings = server.settings();
    settings.timeouts.whole = Duration::from_millis(500);
    settings.retries.max_attempts = 1;
    let error = complete(&OpenAiModel::new(settings).unwrap(), question())
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            ModelError::TimedOut {
                phase: TimeoutPhase::WholeReply,
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_told_after_the_last_try() {
    for broken in [
        Answer::unfinished([text_chunk("The ans")]).then_breaks(),
        Answer::unfinished([text_chunk("The ans")]),
    ] {
        let server = Server::start([broken]).await;
        let error = error_of(&server).await;
        assert!(matches!(error, ModelError::Interrupted { .. }), "{error}");
        assert_eq!(server.requests().len(), 3);
    }
}

#[tokio::test]
async fn a_break_after_the_end_of_the_reply_does_no_harm() {
    let answer = Answer::unfinished([text_chunk("4"), finish_chunk("stop")]).then_breaks();
    let server = Server::start([answer]).await;
    assert_eq!(
        complete(&server.model(), question()).await.unwrap().text,
        "4"
    );
}

#[tokio::test]
async fn a_web_page_is_no_reply() {
    let page = "<!DOCTYPE html><html><title>Welcome to nginx!</title></html>";
    for kind in ["text/html", "application/octet-stream"] {
        let server = Server::start([Answer::bytes(200, kind, page)]).await;
        let error = error_of(&server).await.to_string();
        assert!(
            error.contains("a web page (`Welcome to nginx!`); is the base URL right?"),
            "{error}"
        );
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_empty_list_of_choices_is_tried_again_and_then_told() {
    for empty in [
        Answer::json(200, json!({"choices": []})),
        Answer::stream([json!({"choices": []})]),
        Answer::bytes(200, "application/json", ""),
    ] {
        let server = Server::start([empty]).await;
        let error = error_of(&server).await;
        assert!(matches!(error, ModelError::EmptyReply { .. }), "{error}");
        assert_eq!(server.requests().len(), 3);
    }
}

#[tokio::test]
async fn an_error_inside_the_stream_is_an_error() {
    let overloaded = json!({"error": {"code": 503, "message": "Overloaded"}});
    let broken = Answer::stream([text_chunk("The ans"), overloaded]);
    let server = Server::start([broken]).await;
    let error = error_of(&server).await;
    assert_eq!(
        error.to_string(),
        format!("{} has a problem (status 503): Overloaded", server.url())
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Server::start([Answer::text(["4"])]).await;
    let answer = Answer::bytes(307, "text/plain", "").header("location", &elsewhere.url());
    let server = Server::start([answer]).await;
    let error = complete(&with_key(&server), question()).await.unwrap_err();
    assert!(
        matches!(error, ModelError::InvalidResponse { .. }),
        "{error}"
    );
    assert_eq!(
        elsewhere.requests().len(),
        0,
        "the key stays with whom it is for"
    );
}

#[tokio::test]
async fn nonsense_in_the_stream_is_left_out_and_noted() {
    let answer = Answer::unfinished([text_chunk("4")])
        .send("data: {\"choices\": [{\n\n")
        .send(format!("data: {}\n\n", finish_chunk("stop")));
    let server = Server::start([answer]).await;
    let reply = complete(&server.model(), question()).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.repairs.len()), ("4", 1));
}

#[tokio::test]
async fn a_reply_of_many_small_values_is_not_parsed() {
    let lists = "[],".repeat(500_000);
    let whole = format!(r#"{{"choices": [], "x": [{lists}[]]}}"#);
    let event = format!("data: {whole}\n\n");
    for (kind, body) in [("application/json", whole), ("text/event-stream", event)] {
        let server = Server::start([Answer::bytes(200, kind, body)]).await;
        let error = complete(&with_key(&server), question()).await.unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains("would take more than 64 MiB of memory"),
            "{said}"
        );
    }
}

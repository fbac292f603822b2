//! Record and replay.

use crate::server::{Answer, Server, call_chunk, finish_chunk};
use crate::streaming::{events, question};
use cellblock_model::openai::{ApiKey, OpenAiModel};
use cellblock_model::{
    Image, Message, Model, ModelError, RecordingModel, ReplayModel, Reply, ReplyEvent, Request,
    RequestMatch, ScriptedModel, complete,
};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;

struct RecordingDirectory(tempfile::TempDir);

impl RecordingDirectory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("file.jsonl")
    }
}

async fn record(place: &RecordingDirectory, replies: &[&str], requests: &[Request]) {
    let model = ScriptedModel::new(replies.iter().map(|text| Reply::text(*text)));
    let recorder = RecordingModel::new(Arc::new(model), place.file(), "scripted").unwrap();
    for request in requests {
        complete(&recorder, request.clone()).await.unwrap();
    }
}

fn next(before: &Request, reply: &str, then: &str) -> Request {
    let mut next = before.clone();
    next.messages.push(Message::assistant(reply));
    next.messages.push(Message::user(then));
    next
}

#[tokio::test]
async fn what_was_recorded_over_the_wire_is_played_back() {
    let tools = [
        call_chunk(
            json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": "{\"x\": 1}"}}]),
        ),
        finish_chunk("tool_calls"),
    ];
    let server = Server::start([Answer::stream(tools), Answer::text(["It is 4."])]).await;
    let key = ApiKey::new("sk-very-secret", "the variable OPENAI_API_KEY");
    let client = OpenAiModel::new(server.settings().with_key(Some(key))).unwrap();
    let place = RecordingDirectory::new();
    let recorder =
        RecordingModel::new(Arc::new(client), place.file(), "a server of the tests").unwrap();
    let called = complete(&recorder, question()).await.unwrap();
    let mut second = question();
    second.messages.push(called.message());
    second.messages.push(Message::tool("a", "4"));
    let answered = complete(&recorder, second.clone()).await.unwrap();

    let replay = ReplayModel::open(place.file()).unwrap();
    assert_eq!(
        (replay.header().source.as_str(), replay.name()),
        ("a server of the tests", "test-model")
    );
    assert_eq!(complete(&replay, question()).await.unwrap(), called);
    assert_eq!(complete(&replay, second).await.unwrap(), answered);
    assert_eq!(replay.unused_exchanges(), 0);

    let text = std::fs::read_to_string(place.file()).unwrap();
    assert!(!text.contains("secret"));
    assert_eq!(
        text.matches("2 + 2?").count(),
        1,
        "what came before is not repeated:\n{text}"
    );
}

#[tokio::test]
async fn a_reply_is_played_in_pieces() {
    let place = RecordingDirectory::new();
    record(
        &place,
        &["A reply that is longer than one piece."],
        &[question()],
    )
    .await;
    let seen = events(&ReplayModel::open(place.file()).unwrap(), question()).await;
    let text: String = seen
        .iter()
        .filter_map(|event| match event {
            Ok(ReplyEvent::Text { text }) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(
        (text.as_str(), seen.len()),
        ("A reply that is longer than one piece.", 4)
    );
}

#[tokio::test]
async fn another_request_is_an_error_that_shows_the_difference() {
    let place = RecordingDirectory::new();
    let second = next(&question(), "4", "and 3 + 3?");
    record(&place, &["4", "6"], &[question(), second]).await;
    let replay = ReplayModel::open(place.file()).unwrap();
    let error = complete(&replay, next(&question(), "4", "and 3 + 4?"))
        .await
        .unwrap_err();
    let ModelError::ReplayMismatch {
        exchange,
        difference,
        ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(*exchange, 2);
    assert_eq!(
        difference,
        "messages[3].content\n  recorded: and 3 + 3?\n  asked:    and 3 + 4?"
    );
}

#[tokio::test]
async fn one_request_too_many_is_reported() {
    let place = RecordingDirectory::new();
    record(&place, &["4"], &[question()]).await;
    let replay = ReplayModel::open(place.file()).unwrap();
    complete(&replay, question()).await.unwrap();
    let error = complete(&replay, question()).await.unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("has only 1 replies, and one more was asked for"),
        "{error}"
    );
}

#[tokio::test]
async fn what_differs_from_machine_to_machine_does_not_count() {
    let place = RecordingDirectory::new();
    let with = |id: &str, end: &str, image: &str| Request {
        max_tokens: Some(image.len() as u32),
        ..Request::new(vec![Message::user_with_images(
            format!("TASK-{id} is done{end}next"),
            [Image::inline("image/png", image)],
        )])
    };
    let recorded = with("67e55044-10b1-426f-9247-bb680e5fe0c8", " \r\n", "AAAA");
    record(&place, &["ok"], &[recorded]).await;
    let replay = ReplayModel::open(place.file()).unwrap();
    let asked = with("f47ac10b-58cc-4372-a567-0e02b2c3d479", "\n", "BBBBBB");
    assert_eq!(complete(&replay, asked).await.unwrap().text, "ok");
}

#[tokio::test]
async fn runs_at_the_same_time_share_a_recording() {
    let place = RecordingDirectory::new();
    let other = Request::new(vec![Message::user("5 + 5?")]);
    record(&place, &["4", "10"], &[question(), other.clone()]).await;
    let replay = ReplayModel::open(place.file()).unwrap();
    assert_eq!(complete(&replay, other).await.unwrap().text, "10");
    assert_eq!(complete(&replay, question()).await.unwrap().text, "4");
}

#[tokio::test]
async fn errors_are_recorded_too() {
    let place = RecordingDirectory::new();
    let overflow = ModelError::ContextOverflow {
        model: "m".into(),
        limit: Some(10),
        message: "too long".into(),
    };
    let model = ScriptedModel::with_outcomes([Err(overflow.clone())]);
    let recorder = RecordingModel::new(Arc::new(model), place.file(), "scripted").unwrap();
    complete(&recorder, question()).await.unwrap_err();
    let replay = ReplayModel::open(place.file()).unwrap();
    assert_eq!(complete(&replay, question()).await, Err(overflow));
}

#[tokio::test]
async fn a_recording_is_never_written_over() {
    let place = RecordingDirectory::new();
    record(&place, &["4"], &[question()]).await;
    let again = RecordingModel::new(Arc::new(ScriptedModel::new([])), place.file(), "scripted");
    let error = again.err().unwrap().to_string();
    assert!(
        error.contains("it cannot be written: File exists"),
        "{error}"
    );
}

#[test]
fn a_file_that_is_no_recording_is_reported() {
    let place = RecordingDirectory::new();
    let told = || ReplayModel::open(place.file()).err().unwrap().to_string();
    assert!(told().contains("No such file"));
    for (content, problem) in [
        ("", "its first line is not the header of a recording"),
        ("hello", "its first line is not the header of a recording"),
        (
            "{\"cellblock_recording\":9,\"source\":\"\",\"model\":\"\",\"date\":\"\",\"capabilities\":{}}",
            "it has version 9",
        ),
        (
            "{\"cellblock_recording\":1,\"source\":\"\",\"model\":\"\",\"date\":\"\",\"capabilities\":{}}\n{\"kept_messages\":7,\"request\":{}}",
            "line 2: it keeps more messages than there were before it",
        ),
    ] {
        std::fs::write(place.file(), content).unwrap();
        assert!(told().contains(problem), "{}", told());
    }
}

#[tokio::test]
async fn where_only_the_conversation_is_compared_other_instructions_and_tools_are_fine() {
    let place = RecordingDirectory::new();
    let first = Request::new(vec![Message::system("Be brief."), Message::user("2 + 2?")]);
    let mut late = next(&first, "4", "and 1 more?");
    late.messages.push(Message::system("EXECUTION_RESULT: 5"));
    record(&place, &["4", "5"], &[first.clone(), late.clone()]).await;

    let mut other = first.clone();
    other.messages[0] = Message::system("Be brief and friendly.");
    other.tools = vec![json!({"type": "function", "function": {"name": "new"}})];
    let strict = ReplayModel::open(place.file()).unwrap();
    assert!(complete(&strict, other.clone()).await.is_err());
    let replay = ReplayModel::open_matching(place.file(), RequestMatch::Conversation).unwrap();
    assert_eq!(complete(&replay, other).await.unwrap().text, "4");
    // What came of a reply still counts, also where a system message tells it.
    let mut wrong = late.clone();
    wrong.messages.pop();
    wrong.messages.push(Message::system("EXECUTION_RESULT: 6"));
    let error = complete(&replay, wrong).await.unwrap_err().to_string();
    assert!(error.contains("EXECUTION_RESULT"), "{error}");
    assert_eq!(complete(&replay, late).await.unwrap().text, "5");
}

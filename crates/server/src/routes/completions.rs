//! The agent as a model: the chat completions of OpenAI, so that chat programs talk to it as they talk to any model.

use super::chats::{new_chat, short_title};
use super::{BodyKind, Route};
use crate::agents::{LiveRun, Question, QuestionTask};
use crate::auth::{Access, Caller, Scope, hash_of};
use crate::error::ApiError;
use crate::http::JsonBody;
use crate::live::RingEvent;
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::http::Method;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

/// Chat programs send the whole conversation each time.
const MAX_REQUEST_BYTES: usize = 16 << 20;
/// Conversations whose chat is remembered, so that the next question goes on in the same session.
const MAX_REMEMBERED: usize = 1_000;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            "/v1/models",
            Access::Needs(Scope::Read),
            "List the models, in the form of OpenAI",
            models,
        ),
        Route::new(
            Method::POST,
            "/v1/chat/completions",
            Access::Needs(Scope::Run),
            "Ask the agent as a model, in the form of OpenAI; thoughts and code come as reasoning",
            complete,
        )
        .takes_kind(BodyKind::Object("a request of the chat completions API; `model`, `messages`, `stream` and `stream_options` count"))
        .max_body_bytes(MAX_REQUEST_BYTES),
    ]
}

async fn models(State(state): State<AppState>) -> Json<Value> {
    let names = state
        .agent_setup()
        .map(|setup| setup.names())
        .unwrap_or_default();
    let model =
        |name: &&str| json!({"id": name, "object": "model", "created": 0, "owned_by": "cellblock"});
    Json(json!({"object": "list", "data": names.iter().map(model).collect::<Vec<_>>()}))
}

/// A request of a chat program. What the agent decides itself, such as temperature and tools, is passed over.
#[derive(Debug, Deserialize)]
struct CompletionRequest {
    model: Option<String>,
    messages: Vec<ChatMessage>,
    #[serde(default)]
    stream: bool,
    stream_options: Option<StreamOptions>,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Debug, Deserialize)]
struct ChatMessage {
    role: String,
    content: Option<Value>,
}

impl ChatMessage {
    /// The text of the message: a string, or the text parts of a list.
    fn text(&self) -> String {
        match &self.content {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => {
                let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
                texts.collect::<Vec<_>>().join("\n")
            }
            _ => String::new(),
        }
    }
}

/// The chats of conversations, by a hash of what was said in them.
#[derive(Debug, Default)]
pub(crate) struct Remembered(Mutex<RememberedTable>);

#[derive(Debug, Default)]
struct RememberedTable {
    chats: HashMap<[u8; 32], String>,
    order: VecDeque<[u8; 32]>,
}

impl Remembered {
    fn get(&self, key: &[u8; 32]) -> Option<String> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.chats.get(key).cloned()
    }

    fn insert(&self, key: [u8; 32], chat: &str) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if table.chats.insert(key, chat.to_owned()).is_none() {
            table.order.push_back(key);
        }
        if table.order.len() > MAX_REMEMBERED
            && let Some(oldest) = table.order.pop_front()
        {
            table.chats.remove(&oldest);
        }
    }
}

async fn complete(
    State(state): State<AppState>,
    caller: Caller,
    JsonBody(request): JsonBody<CompletionRequest>,
) -> Result<Response, ApiError> {
    let (question, earlier) = match request.messages.split_last() {
        Some((last, earlier)) if last.role == "user" => (last.text(), earlier),
        _ => {
            return Err(ApiError::invalid(
                "messages: the last one must be a question of the user",
            ));
        }
    };
    let said: Vec<(String, String)> = earlier
        .iter()
        .map(|message| (message.role.clone(), message.text()))
        .collect();
    let known = state.remembered().get(&key_of(caller.id(), &said));
    let row = match known {
        Some(id) => state.store().chat(caller.id(), &id).await?,
        None => None,
    };
    let (row, text) = match row {
        Some(row) => (row, question.clone()),
        None => {
            let title = short_title(&question);
            let row = new_chat(&state, &caller, Some(&title), request.model.as_deref()).await?;
            (row, with_history(&said, &question))
        }
    };
    let model = row.model.clone();
    let chat = row.id.clone();
    let run = state
        .ask(
            &caller,
            row,
            Question {
                task: QuestionTask::Text(text),
                ..Question::default()
            },
        )
        .await?;
    let created = state.store().now();
    let conversation = Conversation {
        state,
        user: caller.id().to_owned(),
        said,
        question,
        chat,
    };
    let reply = ReplyStream::new(run, model, conversation, created);
    if request.stream {
        let wants_usage = request
            .stream_options
            .is_some_and(|options| options.include_usage);
        return Ok(reply.into_sse(wants_usage).into_response());
    }
    Ok(Json(reply.into_whole().await).into_response())
}

/// The question, with what was said before where the server does not remember it.
fn with_history(said: &[(String, String)], question: &str) -> String {
    if said.is_empty() {
        return question.to_owned();
    }
    let lines = said.iter().map(|(role, text)| format!("{role}: {text}"));
    let lines = lines.collect::<Vec<_>>().join("\n\n");
    format!("What was said before:\n\n{lines}\n\nThe question now:\n\n{question}")
}

/// A key for what was said in a conversation of a user. Thoughts that a program sends back do not count.
fn key_of(user: &str, said: &[(String, String)]) -> [u8; 32] {
    hash_of(&json!([user, said]).to_string())
}

/// What is needed to find the chat again when the next question comes.
struct Conversation {
    state: AppState,
    user: String,
    said: Vec<(String, String)>,
    question: String,
    chat: String,
}

impl Conversation {
    fn remember(mut self, answer: &str) {
        self.said.push(("user".to_owned(), self.question));
        self.said.push(("assistant".to_owned(), answer.to_owned()));
        let key = key_of(&self.user, &self.said);
        self.state.remembered().insert(key, &self.chat);
    }
}

/// The reply to a request: the events of a run, as parts of a message.
struct ReplyStream {
    run: Arc<LiveRun>,
    model: String,
    created: i64,
    after: u64,
    ready: VecDeque<Arc<RingEvent>>,
    answer: String,
    usage: Value,
    finish_reason: &'static str,
    is_in_code: bool,
    conversation: Option<Conversation>,
}

/// A part of the reply.
enum ReplyPart {
    Reasoning(String),
    Content(String),
}

impl ReplyStream {
    fn new(
        run: Arc<LiveRun>,
        model: String,
        conversation: Conversation,
        created: i64,
    ) -> ReplyStream {
        ReplyStream {
            model,
            created,
            after: 0,
            ready: VecDeque::new(),
            answer: String::new(),
            usage: Value::Null,
            finish_reason: "stop",
            is_in_code: false,
            conversation: Some(conversation),
            run,
        }
    }

    /// The next part; `None` after the last one.
    async fn next(&mut self) -> Option<ReplyPart> {
        loop {
            while let Some(event) = self.ready.pop_front() {
                self.after = event.seq;
                if let Some(part) = self.part(&event) {
                    return Some(part);
                }
            }
            match self.run.ring.read_after(self.after) {
                Ok(events) if events.is_empty() => {
                    if !self.run.ring.has_more_after(self.after).await {
                        return self.end();
                    }
                }
                Ok(events) => self.ready = events.into(),
                // Parts that were missed are not worth an error; the answer comes last.
                Err(gone) => self.after = gone.oldest_after,
            }
        }
    }

    fn end(&mut self) -> Option<ReplyPart> {
        if let Some(conversation) = self.conversation.take() {
            conversation.remember(&self.answer);
        }
        None
    }

    fn part(&mut self, event: &RingEvent) -> Option<ReplyPart> {
        let json: Value = serde_json::from_str(&event.json).unwrap_or_default();
        let text = |pointer: &str| {
            json.pointer(pointer)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        match event.name.as_str() {
            "reasoning" | "thought_part" => text("/text").map(|text| self.prose(&text)),
            "code_part" => text("/text").map(|text| self.code(&text)),
            "done" => {
                let shown = text("/done/text").map(|text| format!("\n```\n{text}\n```\n"));
                shown.map(|shown| self.prose(&shown))
            }
            "note" => text("/text").map(|text| self.prose(&format!("\n{text}\n"))),
            "approval" => {
                let tool = text("/tool").unwrap_or_default();
                Some(self.prose(&format!("\n(waiting for approval of {tool})\n")))
            }
            "outcome" => Some(self.outcome(&json)),
            _ => None,
        }
    }

    fn prose(&mut self, text: &str) -> ReplyPart {
        let end = if std::mem::take(&mut self.is_in_code) {
            "\n```\n"
        } else {
            ""
        };
        ReplyPart::Reasoning(format!("{end}{text}"))
    }

    fn code(&mut self, text: &str) -> ReplyPart {
        let begin = if self.is_in_code { "" } else { "\n```python\n" };
        self.is_in_code = true;
        ReplyPart::Reasoning(format!("{begin}{text}"))
    }

    fn outcome(&mut self, json: &Value) -> ReplyPart {
        let answer = match &json["answer"] {
            Value::String(text) => text.clone(),
            Value::Null => {
                self.finish_reason = "length";
                let why = json["message"].as_str().unwrap_or("the run has no answer");
                format!("There is no answer: {why}.")
            }
            other => other.to_string(),
        };
        let usage = &json["usage"];
        let (input, output) = (
            usage["input_tokens"].as_u64(),
            usage["output_tokens"].as_u64(),
        );
        let (input, output) = (input.unwrap_or(0), output.unwrap_or(0));
        self.usage = json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output});
        self.answer = format!("{answer}{}", file_links(json));
        ReplyPart::Content(self.answer.clone())
    }

    fn chunk(&self, delta: Value, finish: Option<&str>) -> Value {
        json!({
            "id": format!("chatcmpl-{}", self.run.id), "object": "chat.completion.chunk",
            "created": self.created, "model": self.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        })
    }

    fn into_sse(
        mut self,
        wants_usage: bool,
    ) -> Sse<impl futures_core::Stream<Item = Result<Event, Infallible>>> {
        let cancel = CancelOnDrop(Arc::clone(&self.run));
        let (sender, receiver) = tokio::sync::mpsc::channel::<Event>(16);
        tokio::spawn(async move {
            let data = |value: &Value| Event::default().data(value.to_string());
            let first = self.chunk(json!({"role": "assistant", "content": ""}), None);
            // A send fails when the reader has gone.
            let mut is_read = sender.send(data(&first)).await.is_ok();
            while let Some(part) = self.next().await {
                let delta = match part {
                    ReplyPart::Reasoning(text) => json!({"reasoning_content": text}),
                    ReplyPart::Content(text) => json!({"content": text}),
                };
                let chunk = self.chunk(delta, None);
                is_read = is_read && sender.send(data(&chunk)).await.is_ok();
            }
            let last = self.chunk(json!({}), Some(self.finish_reason));
            let _ = sender.send(data(&last)).await;
            if wants_usage {
                let mut usage = self.chunk(json!({}), None);
                usage["choices"] = json!([]);
                usage["usage"] = self.usage.clone();
                let _ = sender.send(data(&usage)).await;
            }
            let _ = sender.send(Event::default().data("[DONE]")).await;
        });
        let events =
            futures_util::stream::unfold((receiver, cancel), |(mut receiver, cancel)| async move {
                let event = receiver.recv().await?;
                Some((Ok(event), (receiver, cancel)))
            });
        Sse::new(events).keep_alive(KeepAlive::default())
    }

    async fn into_whole(mut self) -> Value {
        let cancel = CancelOnDrop(Arc::clone(&self.run));
        let (mut reasoning, mut content) = (String::new(), String::new());
        while let Some(part) = self.next().await {
            match part {
                ReplyPart::Reasoning(text) => reasoning.push_str(&text),
                ReplyPart::Content(text) => content.push_str(&text),
            }
        }
        drop(cancel);
        json!({
            "id": format!("chatcmpl-{}", self.run.id), "object": "chat.completion",
            "created": self.created, "model": self.model, "usage": self.usage,
            "choices": [{
                "index": 0, "finish_reason": self.finish_reason,
                "message": {"role": "assistant", "content": content, "reasoning_content": reasoning},
            }],
        })
    }
}

/// Ends a run whose reader has gone: a chat program that stops a reply closes the connection.
struct CancelOnDrop(Arc<LiveRun>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel.cancel();
    }
}

/// The files of the workspace as links, for a program that shows Markdown.
fn file_links(outcome: &Value) -> String {
    const MAX_LINKS: usize = 20;
    let (Some(session), Some(files)) = (outcome["session"].as_str(), outcome["files"].as_array())
    else {
        return String::new();
    };
    let links = files.iter().take(MAX_LINKS).filter_map(|file| {
        let path = file["path"].as_str()?;
        let encoded: String = path
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b'/' => {
                    char::from(byte).to_string()
                }
                other => format!("%{other:02X}"),
            })
            .collect();
        let shown = path.replace(['[', ']', '\n', '\\'], "_");
        Some(format!(
            "\n- [{shown}](/v1/sessions/{session}/files/{encoded})"
        ))
    });
    let links: String = links.collect();
    match links.is_empty() {
        true => String::new(),
        false => format!("\n\nFiles:\n{links}"),
    }
}

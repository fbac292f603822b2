//! Chats: questions over one session.

use super::Route;
use super::keys::idempotency_key;
use super::runs::run_json;
use crate::agents::{GivenFile, GivenFiles, LiveRun, Question, QuestionTask, check_question};
use crate::auth::{Access, Caller, Scope, random_id};
use crate::error::ApiError;
use crate::http::{JsonBody, Query};
use crate::sessions::title;
use crate::state::AppState;
use crate::store::ChatRow;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, StatusCode};
use cellblock_agent::{RunBudget, Template, Verify};
use cellblock_protocol::{ClientToolSpec, duration_of_seconds, parse_duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Questions may have a whole document in them.
const MAX_MESSAGE_BYTES: usize = 12 << 20;

pub(super) fn routes() -> Vec<Route> {
    let (read, run) = (Access::Needs(Scope::Read), Access::Needs(Scope::Run));
    let (get, post) = (Method::GET, Method::POST);
    vec![
        Route::new(
            post.clone(),
            "/v1/runs",
            run,
            "Ask a question, in a chat of its own",
            ask_alone,
        )
        .takes::<MessageRequest>()
        .max_body_bytes(MAX_MESSAGE_BYTES)
        .answers(202, "the run; its events tell the rest"),
        Route::new(post.clone(), "/v1/chats", run, "Begin a chat", begin)
            .takes::<NewChat>()
            .answers(201, "the chat"),
        Route::new(
            get.clone(),
            "/v1/chats",
            read,
            "List the caller's chats, the last used first",
            list,
        )
        .query(
            "search",
            "only chats whose title, questions or answers have this text",
        ),
        Route::new(
            get,
            "/v1/chats/{chat}",
            read,
            "A chat with its runs",
            describe,
        ),
        Route::new(
            Method::PATCH,
            "/v1/chats/{chat}",
            run,
            "Change title and model",
            change,
        )
        .takes::<ChatChange>(),
        Route::new(
            Method::DELETE,
            "/v1/chats/{chat}",
            run,
            "Remove a chat and close its session",
            remove,
        ),
        Route::new(
            post.clone(),
            "/v1/chats/{chat}/messages",
            run,
            "Ask a question",
            ask,
        )
        .takes::<MessageRequest>()
        .max_body_bytes(MAX_MESSAGE_BYTES)
        .answers(202, "the run; its events tell the rest"),
        Route::new(
            post,
            "/v1/chats/{chat}/session",
            run,
            "Open the chat's session before code runs, to put files into it",
            open_session,
        )
        .answers(201, "the session"),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewChat {
    title: Option<String>,
    /// The name of a model; the server's first one unless told.
    model: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ChatChange {
    title: Option<String>,
    model: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageRequest {
    /// The question.
    #[serde(default)]
    text: String,
    /// A template instead of a question, as docs/agent.md has them. Only for a run in a chat of its own.
    template: Option<String>,
    /// The arguments of the template.
    #[serde(default)]
    arguments: Map<String, Value>,
    /// The name of a model; that of the chat unless told.
    model: Option<String>,
    /// Whether the cells of the answer run again in a clean session.
    #[serde(default)]
    verify: bool,
    /// The JSON schema of the answer.
    schema: Option<Value>,
    /// Variables that the code sees, as JSON.
    #[serde(default)]
    seed: Map<String, Value>,
    /// Files that are in the workspace when the code begins. Only for a run in a chat of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    files: Vec<GivenFile>,
    /// Tools that the caller answers: each has name, description and parameters, and `changes` where a call does what no undo brings back.
    /// Calls come as events `tool_call` of the run, and are answered at `tool_result`.
    #[serde(default)]
    #[schemars(with = "Vec<Map<String, Value>>")]
    tools: Vec<ClientToolSpec>,
    /// The most steps of the run. This limit and the next three lower those of the server, and never raise them.
    max_steps: Option<usize>,
    /// The longest time of the run.
    max_time: Option<TimeSpan>,
    /// The most tokens of the run.
    max_tokens: Option<u64>,
    /// The highest cost of the run, where the model has prices.
    max_cost: Option<f64>,
    /// Only in a cluster, for a run in a chat of its own: of the caller's runs that wait, those with a higher number begin first.
    #[serde(default)]
    pub(crate) priority: i8,
}

/// A length of time: seconds, or a text such as `5min`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum TimeSpan {
    Seconds(f64),
    Text(String),
}

impl TimeSpan {
    fn duration(self) -> Result<Duration, ApiError> {
        let read = match self {
            TimeSpan::Seconds(seconds) => duration_of_seconds("max_time", seconds),
            TimeSpan::Text(text) => parse_duration(&text),
        };
        read.map_err(|error| ApiError::invalid(format!("max_time: {error}")))
    }
}

/// A run in a chat of its own, after a check.
pub(crate) struct AskedRun {
    /// The name of its model.
    pub(crate) model: String,
    /// The beginning of its question.
    pub(crate) title: String,
    pub(crate) request: MessageRequest,
}

impl MessageRequest {
    /// Refuses what no node could answer, before it is queued.
    pub(crate) fn check(self, state: &AppState) -> Result<AskedRun, ApiError> {
        let model = state.agent_setup()?.find(self.model.as_deref())?;
        if self.template.is_none() {
            check_question(&self.text)?;
        }
        GivenFiles::read(&self.files)?;
        Ok(AskedRun {
            model: model.name().to_owned(),
            title: self.title(),
            request: self,
        })
    }

    /// The title of a chat that begins with the question.
    fn title(&self) -> String {
        match self.template {
            Some(_) => "Template".to_owned(),
            None => short_title(&self.text),
        }
    }

    pub(crate) fn question(self) -> Result<Question, ApiError> {
        if self.max_steps == Some(0) {
            return Err(ApiError::invalid("max_steps: at least 1"));
        }
        let task = match self.template {
            None => QuestionTask::Text(self.text),
            Some(_) if !self.text.is_empty() => {
                return Err(ApiError::invalid("either `text` or `template`"));
            }
            Some(text) => {
                let template = Template::from_markdown(&text);
                let template = template.map_err(|error| ApiError::invalid(error.to_string()))?;
                QuestionTask::Template {
                    template: Box::new(template),
                    arguments: self.arguments,
                }
            }
        };
        let verify = match self.verify {
            true => Verify::On,
            false => Verify::Off,
        };
        Ok(Question {
            task,
            verify,
            schema: self.schema,
            seed: self.seed,
            files: GivenFiles::read(&self.files)?,
            tools: self.tools,
            journal: None,
            budget: RunBudget {
                steps: self.max_steps,
                time: self.max_time.map(TimeSpan::duration).transpose()?,
                tokens: self.max_tokens,
                cost: self.max_cost,
            },
        })
    }
}

/// Makes a chat.
pub(crate) async fn new_chat(
    state: &AppState,
    caller: &Caller,
    title_text: Option<&str>,
    model: Option<&str>,
) -> Result<ChatRow, ApiError> {
    let model = state.agent_setup()?.find(model)?;
    let row = ChatRow {
        id: random_id("c")?,
        user: caller.id().to_owned(),
        title: title(title_text, "New chat")?,
        model: model.name().to_owned(),
        session: None,
        parent: None,
        created_at: state.store().now(),
        used_at: state.store().now(),
    };
    state.store().add_chat(row.clone()).await?;
    Ok(row)
}

async fn begin(
    State(state): State<AppState>,
    caller: Caller,
    JsonBody(request): JsonBody<NewChat>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let row = new_chat(
        &state,
        &caller,
        request.title.as_deref(),
        request.model.as_deref(),
    )
    .await?;
    Ok((StatusCode::CREATED, Json(json!(row))))
}

async fn ask_alone(
    State(state): State<AppState>,
    caller: Caller,
    headers: HeaderMap,
    JsonBody(request): JsonBody<MessageRequest>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    if let Some(cluster) = state.cluster() {
        let key = idempotency_key(&headers)?;
        let run = cluster.submit(&state, &caller, request, key).await?;
        return Ok((StatusCode::ACCEPTED, Json(run)));
    }
    let short = request.title();
    let row = new_chat(&state, &caller, Some(&short), request.model.as_deref()).await?;
    let run = start(&state, &caller, row, request).await?;
    answer(&state, &caller, &run).await
}

async fn ask(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<MessageRequest>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let row = find(&state, &caller, &id).await?;
    if request.template.is_some() || !request.files.is_empty() {
        let alone = "template and files: only for a question with a session of its own";
        return Err(ApiError::invalid(alone).hint("POST /v1/runs"));
    }
    let run = start(&state, &caller, row, request).await?;
    answer(&state, &caller, &run).await
}

async fn start(
    state: &AppState,
    caller: &Caller,
    mut row: ChatRow,
    request: MessageRequest,
) -> Result<Arc<LiveRun>, ApiError> {
    if let Some(name) = &request.model {
        row.model = state.agent_setup()?.find(Some(name))?.name().to_owned();
    }
    if row.title == "New chat" {
        row.title = short_title(&request.text);
    }
    state.store().update_chat(&row).await?;
    state.ask(caller, row, request.question()?).await
}

async fn answer(
    state: &AppState,
    caller: &Caller,
    run: &LiveRun,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let row = super::runs::find(state, caller, &run.id).await?;
    Ok((StatusCode::ACCEPTED, Json(run_json(state, &row))))
}

/// The beginning of a question, in one line.
pub(crate) fn short_title(question: &str) -> String {
    const MAX_TITLE_CHARS: usize = 60;
    let line = question.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_TITLE_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[derive(Debug, Deserialize)]
struct ListQuery {
    search: Option<String>,
}

async fn list(
    State(state): State<AppState>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<Value>, ApiError> {
    let chats = state.store().chats(caller.id(), query.search).await?;
    Ok(Json(json!({"chats": chats})))
}

/// A chat of the caller.
pub(super) async fn find(state: &AppState, caller: &Caller, id: &str) -> Result<ChatRow, ApiError> {
    let row = state.store().chat(caller.id(), id).await?;
    row.ok_or_else(|| ApiError::not_found("chat"))
}

async fn describe(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let row = find(&state, &caller, &id).await?;
    let runs = state.store().runs(caller.id(), Some(id)).await?;
    let mut json = json!(row);
    json["shared"] = state.store().is_shared(&row.id).await?.into();
    json["runs"] = runs.iter().map(|run| run_json(&state, run)).collect();
    Ok(Json(json))
}

async fn change(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<ChatChange>,
) -> Result<Json<Value>, ApiError> {
    let mut row = find(&state, &caller, &id).await?;
    row.title = title(request.title.as_deref(), &row.title)?;
    if let Some(name) = &request.model {
        row.model = state.agent_setup()?.find(Some(name))?.name().to_owned();
    }
    state.store().update_chat(&row).await?;
    Ok(Json(json!(row)))
}

async fn remove(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let row = find(&state, &caller, &id).await?;
    for run in state.store().runs(caller.id(), Some(id.clone())).await? {
        if let Some(run) = state.runs().get(caller.id(), &run.id) {
            run.cancel.cancel();
        }
    }
    state.chats().remove(&id);
    state.store().remove_chat(&id).await?;
    if let Some(session) = row.session {
        state.close_session(&session).await?;
    }
    state
        .audit(caller.id(), "chat.remove", Some(&id), None)
        .await;
    Ok(Json(json!({})))
}

async fn open_session(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let row = find(&state, &caller, &id).await?;
    let live = state
        .chat_session(&caller, &row, Default::default())
        .await?;
    let session = state.session_row(&caller, &live.id).await?;
    Ok((
        StatusCode::CREATED,
        Json(super::sessions::session_json(&session, Some(&live))),
    ))
}

//! Links with which anyone reads a chat, and nothing else.

use super::Route;
use crate::auth::{Access, Caller, Scope, Secret, hash_of};
use crate::error::ApiError;
use crate::http::JsonBody;
use crate::state::AppState;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) fn routes() -> Vec<Route> {
    let run = Access::Needs(Scope::Run);
    vec![
        Route::new(
            Method::POST,
            "/v1/chats/{chat}/share",
            run,
            "Make a link with which anyone reads the chat; a link made before ends",
            share,
        )
        .answers(201, "the path of the link; its secret is shown once"),
        Route::new(
            Method::DELETE,
            "/v1/chats/{chat}/share",
            run,
            "End the link of the chat",
            unshare,
        ),
        Route::new(
            Method::POST,
            "/v1/shared",
            Access::Public,
            "Read a chat with the secret of its link",
            read,
        )
        .takes::<SharedRequest>()
        .answers(200, "the questions with their events and answers"),
    ]
}

async fn share(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    check(&state, &caller, &id).await?;
    let secret = Secret::random()?;
    state.store().share_chat(&id, secret.hash()).await?;
    state
        .audit(caller.id(), "chat.share", Some(&id), None)
        .await;
    let path = format!("/shared#{}", secret.0);
    Ok((StatusCode::CREATED, Json(json!({"path": path}))))
}

async fn unshare(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    check(&state, &caller, &id).await?;
    state.store().unshare_chat(&id).await?;
    state
        .audit(caller.id(), "chat.unshare", Some(&id), None)
        .await;
    Ok(Json(json!({})))
}

async fn check(state: &AppState, caller: &Caller, id: &str) -> Result<(), ApiError> {
    let row = state.store().chat(caller.id(), id).await?;
    row.map(|_| ()).ok_or_else(|| ApiError::not_found("chat"))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SharedRequest {
    /// The secret of the link, which stands behind the `#`.
    secret: String,
}

/// Ids of sessions, runs and chats are left out: they are the owner's.
async fn read(
    State(state): State<AppState>,
    JsonBody(request): JsonBody<SharedRequest>,
) -> Result<Json<Value>, ApiError> {
    let chat = state.store().shared_chat(hash_of(&request.secret)).await?;
    let chat = chat.ok_or_else(|| ApiError::not_found("shared chat"))?;
    let mut runs = Vec::new();
    for row in state.store().runs(&chat.user, Some(chat.id)).await? {
        let events = match super::runs::stored(&state, &row).await {
            Ok(stored) => stored.events,
            // The record was removed: question and answer are still there.
            Err(_) => Vec::new(),
        };
        let events = events.into_iter().filter_map(|stored| {
            let event = without_ids(stored.event)?;
            Some(json!({"at": stored.at, "event": event}))
        });
        runs.push(json!({
            "question": row.question, "status": row.status, "answer": row.answer, "model": row.model,
            "events": events.collect::<Vec<Value>>(),
        }));
    }
    Ok(Json(
        json!({"title": chat.title, "created_at": chat.created_at, "runs": runs}),
    ))
}

/// An event without the ids of its owner's session and journal. `None` for an event that tells nothing else.
fn without_ids(mut event: Value) -> Option<Value> {
    if event["event"] == "session" {
        return None;
    }
    let result = event.pointer_mut("/done/result");
    if let Some(result) = result.and_then(Value::as_object_mut) {
        result.remove("session");
    }
    Some(event)
}

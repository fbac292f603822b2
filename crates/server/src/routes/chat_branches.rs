//! Going back in a chat, and a second chat that goes on from the first.

use super::Route;
use super::chats::find;
use super::sessions::{UndoRequest, undo_cells};
use crate::auth::{Access, Caller, Scope, random_id};
use crate::error::ApiError;
use crate::http::JsonBody;
use crate::state::AppState;
use crate::store::ChatRow;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) fn routes() -> Vec<Route> {
    let run = Access::Needs(Scope::Run);
    vec![
        Route::new(
            Method::POST,
            "/v1/chats/{chat}/fork",
            run,
            "A second chat that goes on from here, over a fork of the session",
            fork,
        )
        .answers(201, "the new chat"),
        Route::new(
            Method::POST,
            "/v1/chats/{chat}/undo",
            run,
            "Take back the last cells; the model is told with the next question",
            undo,
        )
        .takes::<UndoRequest>()
        .answers(200, "what was taken back"),
    ]
}

async fn undo(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<UndoRequest>,
) -> Result<Json<Value>, ApiError> {
    let row = find(&state, &caller, &id).await?;
    let chat = state.live_chat(&row);
    // Held until the model's next question is sure to tell of it.
    let Some(mut conversation) = chat.idle_conversation().await else {
        let busy = ApiError::conflict("busy", "the chat answers a question");
        return Err(busy.hint("wait for the end of its run, or cancel it"));
    };
    let known = chat.session().map(|live| live.id.clone());
    let session = known.or(row.session).ok_or_else(|| {
        let message = "no code ran in this chat: there is nothing to take back";
        ApiError::new(StatusCode::NOT_FOUND, "not_found", message)
    })?;
    let live = state.session(&caller, &session).await?;
    let cells = request.n.unwrap_or(1);
    let undone = undo_cells(&live, cells).await?;
    match conversation.as_mut() {
        Some(conversation) => conversation.note_undo(cells),
        None => chat.note_undo(cells),
    }
    Ok(Json(undone))
}

async fn fork(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let copy = fork_chat(&state, &caller, &id).await?;
    Ok((StatusCode::CREATED, Json(json!(copy))))
}

/// Makes a second chat with the questions of the first, over a fork of its session.
pub(crate) async fn fork_chat(
    state: &AppState,
    caller: &Caller,
    id: &str,
) -> Result<ChatRow, ApiError> {
    let row = find(state, caller, id).await?;
    let mut copy = ChatRow {
        id: random_id("c")?,
        parent: Some(row.id.clone()),
        session: None,
        created_at: state.store().now(),
        used_at: state.store().now(),
        ..row.clone()
    };
    if let Some(session) = &row.session {
        let live = state.session(caller, session).await?;
        copy.session = Some(state.fork_session(caller, &live, None).await?.id.clone());
    }
    let live = state.live_chat(&row).fork().await;
    state.chats().insert(&copy.id, &Arc::new(live));
    state.store().add_chat(copy.clone()).await?;
    // The questions so far are part of both chats.
    for run in state.store().runs(caller.id(), Some(id.to_owned())).await? {
        let run = crate::store::RunRow {
            id: random_id("r")?,
            chat: Some(copy.id.clone()),
            ..run
        };
        if run.status != "running" {
            state.store().put_run(&run).await?;
        }
    }
    Ok(copy)
}

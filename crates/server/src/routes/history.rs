//! What the journal of a session tells: its cells, the variables after one, what it used, and the session as a file.

use crate::auth::Caller;
use crate::error::ApiError;
use crate::http::{Query, attachment};
use crate::live::DisplayFiles;
use crate::state::AppState;
use axum::Json;
use axum::extract::{Path, State};
use axum::response::Response;
use cellblock_host::journal::{Journal, JournalRecord, markdown, notebook, script};
use cellblock_protocol::duration_json::as_milliseconds;
use cellblock_protocol::{Usage, VariableChanges};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug, Deserialize)]
pub(super) struct VarsQuery {
    at: Option<u64>,
}

pub(super) async fn vars(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<VarsQuery>,
) -> Result<Json<Value>, ApiError> {
    if let Some(at) = query.at {
        let journal = state.journal(&caller, &id).await?;
        let vars = vars_after(&journal, at).ok_or_else(|| ApiError::not_found("cell"))?;
        return Ok(Json(json!({"vars": vars})));
    }
    let live = state.session(&caller, &id).await?;
    Ok(Json(json!({"vars": live.session.vars().await?})))
}

/// The variables after a cell, put together from what the results up to it say is new, changed and gone. `None`: no such cell ended.
fn vars_after(journal: &Journal, at: u64) -> Option<Vec<Value>> {
    let mut kept: Vec<(u64, &VariableChanges)> = Vec::new();
    for line in &journal.lines {
        match &line.record {
            JournalRecord::Ended(ended) => {
                kept.retain(|(cell, _)| *cell <= ended.stands);
                if ended.stands == ended.cell {
                    kept.push((ended.cell, &ended.result.variables));
                }
                if ended.cell == at {
                    return Some(vars_of(&kept));
                }
            }
            JournalRecord::Undone { stands, .. } | JournalRecord::Restored { stands } => {
                kept.retain(|(cell, _)| cell <= stands);
            }
            JournalRecord::Reset => kept.clear(),
            _ => {}
        }
    }
    None
}

fn vars_of(kept: &[(u64, &VariableChanges)]) -> Vec<Value> {
    let mut vars = BTreeMap::new();
    for (_, changes) in kept {
        for change in changes.added.iter().chain(&changes.changed) {
            vars.insert(
                &change.name,
                serde_json::to_value(change).unwrap_or_default(),
            );
        }
        for change in &changes.removed {
            vars.remove(&change.name);
        }
    }
    vars.into_values().collect()
}

pub(super) async fn journal(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    // Before the journal is read: events after this number may be in it too, but none is missing.
    let seq = state.live().get(&id).map(|live| live.ring.newest());
    let journal = state.journal(&caller, &id).await?;
    let displays = DisplayFiles::new(state.displays_directory(&id));
    let made = tokio::task::spawn_blocking(move || {
        let summary = journal.summary();
        let cells = summary.cells.into_iter().map(|cell| {
            let result = cell.ended.map(|ended| crate::live::result_json(ended.result, &id, &displays));
            json!({
                "cell": cell.number, "code": cell.cell.code, "begun_at": cell.begun_at, "fate": cell.fate,
                "result": result,
            })
        });
        json!({
            "session": id, "seq": seq, "state": journal.fate.name(), "incomplete": journal.incomplete,
            "python": journal.opened.python, "isolation": journal.opened.isolation,
            "cells": cells.collect::<Vec<Value>>(),
        })
    });
    let made = made
        .await
        .map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(Json(made))
}

#[derive(Debug, Deserialize)]
pub(super) struct ExportQuery {
    r#as: Option<String>,
}

pub(super) async fn export(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<ExportQuery>,
) -> Result<Response, ApiError> {
    let journal = state.journal(&caller, &id).await?;
    let (kind, text) = match query.r#as.as_deref().unwrap_or("py") {
        "py" => ("py", script(&journal)),
        "ipynb" => (
            "ipynb",
            serde_json::to_string_pretty(&notebook(&journal)).unwrap_or_default(),
        ),
        "md" => {
            let row = state.session_row(&caller, &id).await?;
            ("md", markdown(&row.title, &journal))
        }
        "html" => {
            let row = state.session_row(&caller, &id).await?;
            let source = notebook(&journal).to_string();
            let page = crate::web::document_of_notebook(&row.title, &source);
            ("html", page.unwrap_or_default())
        }
        other => {
            return Err(ApiError::invalid(format!(
                "as: py, ipynb, md or html, not `{other}`"
            )));
        }
    };
    state
        .audit(
            caller.id(),
            "session.export",
            Some(&id),
            Some(kind.to_owned()),
        )
        .await;
    attachment(
        &format!("{id}.{kind}"),
        "application/octet-stream",
        text.into(),
    )
}

pub(super) async fn usage(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let journal = state.journal(&caller, &id).await?;
    let summary = journal.summary();
    let ended = summary.cells.iter().filter_map(|cell| cell.ended.as_ref());
    let usages: Vec<_> = ended.map(|ended| ended.result.usage).collect();
    let milliseconds = |part: fn(&Usage) -> Duration| {
        let times = usages.iter().map(part);
        as_milliseconds(times.fold(Duration::ZERO, Duration::saturating_add))
    };
    Ok(Json(json!({
        "cells": usages.len(),
        "wall_ms": milliseconds(|usage| usage.wall),
        "cpu_ms": milliseconds(|usage| usage.cpu),
        "peak_bytes": usages.iter().map(|usage| usage.peak_bytes).max().unwrap_or(0),
    })))
}

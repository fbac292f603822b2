//! The list of a caller's sandboxes: filtered, ordered, page by page.

use super::create::listed_json;
use super::error::E2bError;
use super::sandbox::Sandbox;
use super::time::from_rfc3339;
use crate::auth::Caller;
use crate::http::Query;
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::SystemTime;

/// The most sandboxes on one page.
const MAX_PAGE: usize = 100;
/// Tells the client where the next page begins.
const NEXT_TOKEN: HeaderName = HeaderName::from_static("x-next-token");

#[derive(Debug, Deserialize)]
pub(super) struct ListQuery {
    metadata: Option<String>,
    state: Option<String>,
    template: Option<String>,
    #[serde(rename = "startedAfter")]
    started_after: Option<String>,
    order: Option<String>,
    limit: Option<usize>,
    #[serde(rename = "nextToken")]
    next_token: Option<String>,
}

/// Lists the sandboxes of the caller, the newest first unless told otherwise.
pub(super) async fn list(
    State(state): State<AppState>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<(HeaderMap, Json<Vec<Value>>), E2bError> {
    let after = query.started_after()?;
    let mut found = state.sandboxes().all();
    found.retain(|sandbox| sandbox.caller.id() == caller.id() && query.wants(sandbox));
    found.retain(|sandbox| after.is_none_or(|after| sandbox.started_at >= after));
    found.sort_by_key(|sandbox| (sandbox.started_at, sandbox.id.clone()));
    if query.order.as_deref() != Some("asc") {
        found.reverse();
    }
    // The token is the id of the last sandbox on the page before.
    if let Some(token) = &query.next_token {
        let seen = found.iter().position(|sandbox| &sandbox.id == token);
        let seen =
            seen.ok_or_else(|| E2bError::bad_request("the next token is not valid any more"))?;
        found.drain(..=seen);
    }
    let limit = query.limit.unwrap_or(MAX_PAGE).clamp(1, MAX_PAGE);
    let mut headers = HeaderMap::new();
    if found.len() > limit {
        let last = found.get(limit - 1).map(|sandbox| sandbox.id.as_str());
        if let Some(Ok(value)) = last.map(HeaderValue::from_str) {
            headers.insert(NEXT_TOKEN, value);
        }
        found.truncate(limit);
    }
    let page = found.iter().map(|sandbox| listed_json(sandbox)).collect();
    Ok((headers, Json(page)))
}

impl ListQuery {
    fn started_after(&self) -> Result<Option<SystemTime>, E2bError> {
        let Some(text) = &self.started_after else {
            return Ok(None);
        };
        let time = from_rfc3339(text);
        time.map(Some)
            .ok_or_else(|| E2bError::bad_request("`startedAfter` is not a time as RFC 3339 has it"))
    }

    fn wants(&self, sandbox: &Arc<Sandbox>) -> bool {
        let life = sandbox.life();
        let states = self.state.as_deref().filter(|states| !states.is_empty());
        let has_state =
            states.is_none_or(|states| states.split(',').any(|state| state == life.state.name()));
        let has_template = self
            .template
            .as_ref()
            .is_none_or(|template| *template == sandbox.settings.template);
        let wanted = metadata_pairs(self.metadata.as_deref().unwrap_or(""));
        let has_metadata = wanted
            .iter()
            .all(|(name, value)| sandbox.settings.metadata.get(name) == Some(value));
        has_state && has_template && has_metadata
    }
}

/// The pairs of `name=value&name=value`, in which names and values are URL-encoded once more than the query itself.
fn metadata_pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

/// A text without its percent encoding.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = text.get(at + 1..at + 3).filter(|_| byte == b'%');
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(decoded) => {
                out.push(decoded);
                at += 3;
            }
            None => {
                out.push(if byte == b'+' { b' ' } else { byte });
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_of_a_query_is_decoded() {
        let pairs = metadata_pairs("a=b&key%20one=x%3Dy&broken=%zz&%C3%A4=+");
        let expected = [
            ("a", "b"),
            ("key one", "x=y"),
            ("broken", "%zz"),
            ("ä", " "),
        ];
        let expected: Vec<(String, String)> = expected
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        assert_eq!(pairs, expected);
    }
}

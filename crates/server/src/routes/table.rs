//! One route: its path, what it needs, what it takes and answers, and the function that does it.

use crate::auth::{Access, authorize};
use crate::cluster::{to_owner, to_runner};
use crate::http::{await_short_body, hold_body};
use crate::state::AppState;
use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodFilter, MethodRouter, on};
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// The longest body of a route that does not say otherwise.
const MAX_BODY_BYTES: usize = 1 << 20;
/// The same where callers need no login.
const MAX_PUBLIC_BODY_BYTES: usize = 16 << 10;

/// A route of the API.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    /// What the route does, in one sentence.
    pub(crate) summary: &'static str,
    pub(crate) query: Vec<QueryField>,
    pub(crate) body: Option<BodyKind>,
    /// The status of a good answer, and what it holds.
    pub(crate) answer: (u16, &'static str),
    max_body_bytes: usize,
    handler: MethodRouter<AppState>,
}

/// A field of the query string.
pub(crate) struct QueryField {
    pub(crate) name: &'static str,
    pub(crate) meaning: &'static str,
}

/// What the body of a request holds.
pub(crate) enum BodyKind {
    /// JSON of this schema.
    Json(fn(&mut SchemaGenerator) -> Schema),
    /// Any JSON object, explained elsewhere.
    Object(&'static str),
    /// Bytes.
    Bytes,
}

impl Route {
    pub(crate) fn new<H, T>(
        method: Method,
        path: &'static str,
        access: Access,
        summary: &'static str,
        handler: H,
    ) -> Route
    where
        H: Handler<T, AppState>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET);
        Route {
            method,
            path,
            access,
            summary,
            query: Vec::new(),
            body: None,
            answer: (200, "the answer"),
            max_body_bytes: match access {
                Access::Public => MAX_PUBLIC_BODY_BYTES,
                Access::Needs(_) => MAX_BODY_BYTES,
            },
            handler: on(filter, handler),
        }
    }

    /// Adds a field of the query string.
    pub(crate) fn query(mut self, name: &'static str, meaning: &'static str) -> Route {
        self.query.push(QueryField { name, meaning });
        self
    }

    /// The body is JSON of this type.
    pub(crate) fn takes<T: JsonSchema>(mut self) -> Route {
        self.body = Some(BodyKind::Json(|generator| generator.subschema_for::<T>()));
        self
    }

    /// The body is something else.
    pub(crate) fn takes_kind(mut self, kind: BodyKind) -> Route {
        self.body = Some(kind);
        self
    }

    /// A good answer has this status and holds this.
    pub(crate) fn answers(mut self, status: u16, what: &'static str) -> Route {
        self.answer = (status, what);
        self
    }

    /// The body may have this many bytes.
    pub(crate) fn max_body_bytes(mut self, bytes: usize) -> Route {
        self.max_body_bytes = bytes;
        self
    }

    /// The function, behind the check of the caller and the limit of the body.
    pub(crate) fn into_handler(self, state: &AppState) -> MethodRouter<AppState> {
        let check = from_fn_with_state((state.clone(), self.access), authorize);
        let handler = match (self.body, self.access) {
            // Read piece by piece.
            (Some(BodyKind::Bytes), _) => self.handler,
            (_, Access::Public) => self.handler.layer(from_fn(await_short_body)),
            (_, Access::Needs(_)) => self
                .handler
                .layer(from_fn_with_state(state.clone(), hold_body)),
        };
        let handler = handler.layer(DefaultBodyLimit::max(self.max_body_bytes));
        let handler = if self.path.starts_with("/v1/sessions") {
            handler.layer(from_fn_with_state(state.clone(), to_owner))
        } else if self.path.starts_with("/v1/runs/{run}") {
            handler.layer(from_fn_with_state(state.clone(), to_runner))
        } else {
            handler
        };
        handler.layer(check)
    }
}

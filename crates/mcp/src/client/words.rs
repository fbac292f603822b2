//! What went wrong between a server and us, for people.

use rmcp::ServiceError;
use rmcp::service::ClientInitializeError;
use std::error::Error;

/// Characters of a message that comes from elsewhere.
const MAX_MESSAGE_CHARS: usize = 500;

/// Why a server could not be greeted.
pub(super) fn no_greeting(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => {
            "it went away before it said what it offers".to_owned()
        }
        ClientInitializeError::JsonRpcError(error) => {
            format!("it refuses to begin: {}", short(&error.message))
        }
        ClientInitializeError::ExpectedInitResponse(_)
        | ClientInitializeError::ExpectedInitResult(_)
        | ClientInitializeError::ConflictInitResponseId(..)
        | ClientInitializeError::UncorrelatedErrorResponse { .. } => {
            "it answers, but not in the Model Context Protocol".to_owned()
        }
        error if error.is_authorization_required() => {
            "it wants other credentials: set `token`, `token_env` or `headers`".to_owned()
        }
        ClientInitializeError::TransportError { error, .. } => {
            format!("it cannot be reached: {}", chain(error.error.as_ref()))
        }
        other => short(&other.to_string()),
    }
}

/// Why a request has no answer. None: the server is gone, and others know why.
pub(super) fn no_answer(error: ServiceError) -> Option<String> {
    match error {
        ServiceError::TransportClosed => None,
        ServiceError::McpError(error) => Some(format!("it refuses: {}", short(&error.message))),
        ServiceError::UnexpectedResponse => {
            Some("it answered with something that is no result of a call".to_owned())
        }
        ServiceError::TransportSend(error) => Some(format!(
            "it cannot be reached: {}",
            chain(error.error.as_ref())
        )),
        other => Some(short(&other.to_string())),
    }
}

/// An error with its causes.
fn chain(error: &(dyn Error + Send + Sync)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    short(&text)
}

/// Not longer than a person reads, and nothing that moves a terminal's cursor.
pub(super) fn short(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = clean.take(MAX_MESSAGE_CHARS).collect();
    if text.chars().nth(MAX_MESSAGE_CHARS).is_some() {
        short.push('…');
    }
    short
}

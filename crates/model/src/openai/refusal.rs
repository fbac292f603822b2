//! What an answer other than 200 means.

use super::excerpt::{excerpt, looks_like_html};
use super::key::Key;
use crate::ModelError;
use serde_json::Value;
use std::time::Duration;

/// Who was asked, for messages.
#[derive(Clone)]
pub(super) struct Asked {
    pub(super) url: String,
    pub(super) model: String,
    pub(super) key: Option<Key>,
    /// The variables that could hold a key.
    pub(super) variables: Vec<String>,
}

/// Words by which endpoints say that a conversation is too long.
const OVERFLOW: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size",
    "context length",
    "context size",
    "context window",
    "maximum context",
    "prompt is too long",
    "input is too long",
    "range of input length",
    "too many tokens",
    "reduce the length",
];

impl Asked {
    /// The error for an answer of the endpoint's, or for an `error` inside a stream.
    pub(super) fn refusal(
        &self,
        status: u16,
        body: &str,
        retry_after: Option<Duration>,
    ) -> ModelError {
        let json: Value = serde_json::from_str(body).unwrap_or(Value::Null);
        let message = self.harmless(&message_of(&json).unwrap_or_else(|| body.to_owned()));
        let url = self.url.clone();
        let model = self.model.clone();
        let said = format!("{} {}", code_of(&json), message).to_lowercase();
        if (400..=500).contains(&status)
            && status != 429
            && OVERFLOW.iter().any(|words| said.contains(words))
        {
            let limit = context_limit(&json, &message);
            return ModelError::ContextOverflow {
                model,
                limit,
                message,
            };
        }
        match status {
            401 => match &self.key {
                Some(key) => ModelError::WrongKey {
                    url,
                    source_of_key: key.source().to_owned(),
                    message,
                },
                None => ModelError::NoKey {
                    url,
                    variables: self.variables.join(" or "),
                },
            },
            403 => ModelError::Forbidden { url, message },
            400 | 404 | 422 if is_about_the_model(&said, &model) => ModelError::UnknownModel {
                url,
                model,
                message,
            },
            404 => ModelError::Refused {
                url,
                status,
                message: format!(
                    "{message}; is the base URL right? It often ends in `/v1`, and `/chat/completions` is added to it"
                ),
            },
            429 if said.contains("insufficient_quota") => ModelError::Refused {
                url,
                status,
                message,
            },
            429 => ModelError::RateLimited {
                url,
                message,
                retry_after,
            },
            408 | 425 | 500.. => ModelError::Server {
                url,
                status,
                message,
            },
            300..400 => ModelError::NotTheProtocol {
                url,
                problem: format!(
                    "it answers with a redirect (status {status}); set the base URL to where it leads"
                ),
            },
            _ => ModelError::Refused {
                url,
                status,
                message,
            },
        }
    }

    /// An answer with status 200 that is no reply.
    pub(super) fn not_the_protocol(&self, body: &str) -> ModelError {
        let said = self.harmless(body);
        let url = self.url.clone();
        let problem = if body.trim().is_empty() {
            let problem = "its answer has no content".into();
            return ModelError::EmptyReply { url, problem };
        } else if looks_like_html(body) {
            format!(
                "it answers with a web page (`{said}`); is the base URL right? It often ends in `/v1`"
            )
        } else {
            format!("it answers `{said}`")
        };
        ModelError::NotTheProtocol { url, problem }
    }

    /// A text of the endpoint's that may be shown.
    pub(super) fn harmless(&self, text: &str) -> String {
        // The key goes first, so that it is not cut in two.
        let text = match &self.key {
            Some(key) => key.remove_from(text),
            None => text.to_owned(),
        };
        let said = excerpt(&text);
        if said.is_empty() {
            "(it said nothing)".into()
        } else {
            said
        }
    }
}

/// The error inside a stream or an answer, with its status where it names one.
pub(super) fn error_in(chunk: &Value) -> Option<u16> {
    let error = chunk.get("error").filter(|error| !error.is_null())?;
    let status = [error.get("code"), error.get("status"), chunk.get("code")]
        .into_iter()
        .flatten()
        .find_map(|code| match code {
            Value::String(text) => text.parse().ok(),
            other => other.as_u64(),
        })
        .and_then(|code| u16::try_from(code).ok())
        .filter(|code| (400..600).contains(code));
    Some(status.unwrap_or(500))
}

/// Whether the endpoint refuses this field of the request.
pub(super) fn refuses_field(message: &str, field: &str) -> bool {
    let message = message.to_lowercase();
    let words = [
        "unsupported",
        "not supported",
        "unknown",
        "unrecognized",
        "unexpected",
        "extra inputs",
        "not permitted",
        "not allowed",
        "does not support",
        "unavailable",
        "invalid parameter",
    ];
    message.contains(field) && words.iter().any(|word| message.contains(word))
}

fn message_of(json: &Value) -> Option<String> {
    let places = [
        "/error/message",
        "/error",
        "/message",
        "/detail",
        "/0/error/message",
    ];
    let found = places
        .iter()
        .find_map(|place| json.pointer(place)?.as_str());
    let more = json.pointer("/error/metadata/raw").and_then(Value::as_str);
    match (found, more) {
        (Some(message), Some(more)) => Some(format!("{message}: {more}")),
        (found, more) => found.or(more).map(str::to_owned),
    }
}

fn code_of(json: &Value) -> String {
    let places = ["/error/code", "/error/type", "/code"];
    let codes = places
        .iter()
        .filter_map(|place| json.pointer(place)?.as_str());
    codes.collect::<Vec<_>>().join(" ")
}

fn is_about_the_model(said: &str, model: &str) -> bool {
    let missing = [
        "not found",
        "not exist",
        "not_found",
        "invalid model",
        "not a valid model",
        "unknown model",
        "no such model",
    ];
    let names_it = said.contains("model") || said.contains(&model.to_lowercase());
    names_it && missing.iter().any(|words| said.contains(words))
}

fn context_limit(json: &Value, message: &str) -> Option<u64> {
    if let Some(limit) = json.pointer("/error/n_ctx").and_then(Value::as_u64) {
        return Some(limit);
    }
    let message = message.to_lowercase();
    let places = [
        "context length is ",
        "context length of ",
        "context size (",
        "context window of ",
    ];
    let after = places.iter().find_map(|place| message.split_once(place))?.1;
    let digits: String = after
        .chars()
        .filter(|c| *c != ',')
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

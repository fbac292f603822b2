//! The errors of an endpoint: what a response other than a reply means.

use super::key::ApiKey;
use crate::ModelError;
use serde_json::Value;
use std::time::Duration;

/// The endpoint and the model that were asked, for error messages.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) url: String,
    pub(super) model: String,
    pub(super) key: Option<ApiKey>,
    /// The environment variables that could hold a key.
    pub(super) variables: Vec<String>,
}

/// Phrases by which endpoints say that a conversation is too long.
const OVERFLOW_PHRASES: &[&str] = &[
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

impl Endpoint {
    /// The error for a response with this status, or for an `error` object inside a stream.
    pub(super) fn error_of_response(
        &self,
        status: u16,
        body: &str,
        retry_after: Option<Duration>,
    ) -> ModelError {
        let json: Value = serde_json::from_str(body).unwrap_or(Value::Null);
        let message =
            self.excerpt_without_key(&message_of(&json).unwrap_or_else(|| body.to_owned()));
        let url = self.url.clone();
        let model = self.model.clone();
        let said = format!("{} {}", code_of(&json), message).to_lowercase();
        if (400..=500).contains(&status)
            && status != 429
            && OVERFLOW_PHRASES.iter().any(|words| said.contains(words))
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
            300..400 => ModelError::InvalidResponse {
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

    /// The error for a response with status 200 that is no reply.
    pub(super) fn invalid_response(&self, body: &str) -> ModelError {
        let said = self.excerpt_without_key(body);
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
        ModelError::InvalidResponse { url, problem }
    }

    /// The beginning of a text of the endpoint, on one line and without the key.
    pub(super) fn excerpt_without_key(&self, text: &str) -> String {
        // The key is removed before the text is cut, so that no half of it is left.
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

/// The status of an `error` object in a chunk or a response; 500 where it names none. `None` where there is no error.
pub(super) fn error_status(chunk: &Value) -> Option<u16> {
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

/// Whether the message says that the endpoint does not take this field of the request.
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
    let names_model = said.contains("model") || said.contains(&model.to_lowercase());
    names_model && missing.iter().any(|words| said.contains(words))
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

/// The characters of an excerpt.
const MAX_EXCERPT_CHARS: usize = 300;

/// The beginning of a text on one line: without control characters, and without tags where it is a web page.
fn excerpt(text: &str) -> String {
    let text = if looks_like_html(text) {
        without_tags(text)
    } else {
        text.to_owned()
    };
    let mut words = String::new();
    let mut kept = 0;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if !words.is_empty() {
            words.push(' ');
            kept += 1;
        }
        for character in word.chars() {
            if kept == MAX_EXCERPT_CHARS {
                words.push('…');
                return words;
            }
            words.push(character);
            kept += 1;
        }
    }
    words
}

/// Whether a text is a web page.
fn looks_like_html(text: &str) -> bool {
    let start: String = text.trim_start().chars().take(15).collect();
    let start = start.to_ascii_lowercase();
    start.starts_with("<!doctype") || start.starts_with("<html") || start.starts_with("<head")
}

fn without_tags(text: &str) -> String {
    let mut plain = String::new();
    let mut in_tag = false;
    for character in text.chars() {
        match character {
            '<' => in_tag = true,
            '>' => {
                in_tag = false;
                plain.push(' ');
            }
            _ if !in_tag => plain.push(character),
            _ => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_excerpt_of_a_web_page_is_its_text() {
        let page = "<html><head><title>502 Bad Gateway</title></head>\n<body>\x1b[31mnginx</body>";
        assert_eq!(excerpt(page), "502 Bad Gateway [31mnginx");
    }

    #[test]
    fn a_long_text_is_cut() {
        assert_eq!(
            excerpt(&"é".repeat(1000)).chars().count(),
            MAX_EXCERPT_CHARS + 1
        );
    }
}

//! One request and its answer, each on a connection of its own.

use crate::{Engine, Error};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::io::ErrorKind;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Making a container on a slow disk takes seconds; a minute means that the engine hangs.
const LIMIT: Duration = Duration::from_secs(60);
/// The longest answer that is read.
const LONGEST: usize = 4 << 20;

/// What the engine is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    /// In words, for messages.
    pub(crate) what: &'static str,
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) body: Option<&'a Value>,
}

impl<'a> Question<'a> {
    pub(crate) fn get(what: &'static str, path: &'a str) -> Question<'a> {
        Question {
            what,
            method: &Method::GET,
            path,
            body: None,
        }
    }

    pub(crate) fn post(what: &'static str, path: &'a str) -> Question<'a> {
        Question {
            method: &Method::POST,
            ..Question::get(what, path)
        }
    }

    pub(crate) fn silent(&self, reason: impl ToString) -> Error {
        Error::Silent {
            what: self.what,
            reason: reason.to_string(),
        }
    }
}

impl Engine {
    /// Asks, and reads the whole answer, within a minute. The status is for the caller to judge.
    pub(crate) async fn ask(&self, question: Question<'_>) -> Result<(StatusCode, Value), Error> {
        let exchange = async {
            let answer = self.send(question, false).await?;
            read(question, answer).await
        };
        match timeout(LIMIT, exchange).await {
            Ok(outcome) => outcome,
            Err(_) => Err(question.silent(format!("nothing came for {} s", LIMIT.as_secs()))),
        }
    }

    /// The same where anything but success is a refusal.
    pub(crate) async fn order(&self, question: Question<'_>) -> Result<Value, Error> {
        match self.ask(question).await? {
            (status, value) if status.is_success() => Ok(value),
            (status, value) => Err(refused(question, status, &value)),
        }
    }

    /// Sends a question and returns when the head of the answer is there.
    pub(crate) async fn send(
        &self,
        question: Question<'_>,
        upgrade: bool,
    ) -> Result<Response<Incoming>, Error> {
        let stream = UnixStream::connect(self.socket()).await;
        let stream = stream.map_err(|source| match source.kind() {
            ErrorKind::PermissionDenied => Error::Forbidden {
                address: self.address(),
            },
            _ => Error::NoEngine {
                address: self.address(),
                source,
            },
        })?;
        let silent = |error: hyper::Error| question.silent(error);
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(silent)?;
        // It ends with the answer, or with whoever holds the upgraded connection.
        tokio::spawn(connection.with_upgrades());
        let body = question.body.map(Value::to_string).unwrap_or_default();
        let mut request = Request::builder()
            .method(question.method)
            .uri(question.path)
            .header("Host", "engine")
            .header("Content-Type", "application/json");
        if upgrade {
            request = request
                .header("Connection", "Upgrade")
                .header("Upgrade", "tcp");
        }
        let request = request
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| question.silent(error))?;
        sender.send_request(request).await.map_err(silent)
    }
}

/// Reads an answer to its end, however long that takes.
pub(crate) async fn read(
    question: Question<'_>,
    answer: Response<Incoming>,
) -> Result<(StatusCode, Value), Error> {
    let status = answer.status();
    let body = Limited::new(answer.into_body(), LONGEST).collect().await;
    let bytes = body.map_err(|error| question.silent(error))?.to_bytes();
    if bytes.is_empty() {
        return Ok((status, Value::Null));
    }
    let text = String::from_utf8_lossy(&bytes);
    // Some answers are plain text, such as that of a ping.
    Ok((
        status,
        serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text.trim())),
    ))
}

/// The engine's own words for why not.
pub(crate) fn refused(question: Question<'_>, status: StatusCode, answer: &Value) -> Error {
    let words = answer.get("message").unwrap_or(answer).as_str();
    Error::Refused {
        what: question.what,
        message: match words {
            Some(words) if !words.is_empty() => words.to_owned(),
            _ => status.to_string(),
        },
    }
}

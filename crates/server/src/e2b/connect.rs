//! The Connect protocol with JSON: unary calls are plain JSON, streams are envelopes of a flag byte, a length and JSON.

use super::error::E2bError;
use crate::http::checked_values;
use axum::Json;
use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc;

/// The content type of a stream.
const STREAM_TYPE: &str = "application/connect+json";
/// The flag of an envelope whose contents are compressed, which no client was offered.
const COMPRESSED: u8 = 1;
/// The flag of the last envelope of a stream.
const END_OF_STREAM: u8 = 2;
/// The bytes of an envelope before its contents.
const HEAD_BYTES: usize = 5;
/// The longest time that a client can give a call.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// The reason why a call failed, as Connect names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RpcError {
    pub(super) code: RpcCode,
    pub(super) message: String,
}

/// The codes of Connect that this server uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RpcCode {
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Unimplemented,
    Internal,
    Unavailable,
    Unauthenticated,
}

impl RpcCode {
    fn name(self) -> &'static str {
        match self {
            RpcCode::InvalidArgument => "invalid_argument",
            RpcCode::DeadlineExceeded => "deadline_exceeded",
            RpcCode::NotFound => "not_found",
            RpcCode::AlreadyExists => "already_exists",
            RpcCode::PermissionDenied => "permission_denied",
            RpcCode::ResourceExhausted => "resource_exhausted",
            RpcCode::FailedPrecondition => "failed_precondition",
            RpcCode::Unimplemented => "unimplemented",
            RpcCode::Internal => "internal",
            RpcCode::Unavailable => "unavailable",
            RpcCode::Unauthenticated => "unauthenticated",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            RpcCode::InvalidArgument | RpcCode::FailedPrecondition => StatusCode::BAD_REQUEST,
            RpcCode::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            RpcCode::NotFound => StatusCode::NOT_FOUND,
            RpcCode::AlreadyExists => StatusCode::CONFLICT,
            RpcCode::PermissionDenied => StatusCode::FORBIDDEN,
            RpcCode::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            RpcCode::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            RpcCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            RpcCode::Unavailable => StatusCode::BAD_GATEWAY,
            RpcCode::Unauthenticated => StatusCode::UNAUTHORIZED,
        }
    }
}

impl RpcError {
    pub(super) fn new(code: RpcCode, message: impl Into<String>) -> RpcError {
        RpcError {
            code,
            message: message.into(),
        }
    }

    pub(super) fn invalid(message: impl Into<String>) -> RpcError {
        RpcError::new(RpcCode::InvalidArgument, message)
    }

    pub(super) fn not_found(message: impl Into<String>) -> RpcError {
        RpcError::new(RpcCode::NotFound, message)
    }

    fn json(&self) -> Value {
        json!({"code": self.code.name(), "message": self.message})
    }
}

impl IntoResponse for RpcError {
    fn into_response(self) -> Response {
        (self.code.status(), Json(self.json())).into_response()
    }
}

impl From<E2bError> for RpcError {
    fn from(error: E2bError) -> RpcError {
        let code = match error.status {
            StatusCode::UNAUTHORIZED => RpcCode::Unauthenticated,
            StatusCode::FORBIDDEN => RpcCode::PermissionDenied,
            StatusCode::NOT_FOUND => RpcCode::NotFound,
            StatusCode::CONFLICT => RpcCode::AlreadyExists,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::INSUFFICIENT_STORAGE => {
                RpcCode::ResourceExhausted
            }
            StatusCode::NOT_IMPLEMENTED => RpcCode::Unimplemented,
            StatusCode::BAD_GATEWAY | StatusCode::GONE => RpcCode::Unavailable,
            status if status.is_client_error() => RpcCode::InvalidArgument,
            _ => RpcCode::Internal,
        };
        RpcError::new(code, error.message)
    }
}

impl From<cellblock_session::Error> for RpcError {
    fn from(error: cellblock_session::Error) -> RpcError {
        E2bError::from(error).into()
    }
}

/// The request of a unary call.
pub(super) fn unary_request<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<T, RpcError> {
    if !has_type(headers, "application/json") {
        return Err(RpcError::invalid(
            "the call needs the content type application/json; other codecs are not offered",
        ));
    }
    parse(body)
}

/// The only request of a call that is answered by a stream.
pub(super) fn stream_request<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<T, RpcError> {
    if !has_type(headers, STREAM_TYPE) {
        return Err(RpcError::invalid(
            "the call needs the content type application/connect+json; other codecs are not offered",
        ));
    }
    let mut messages = envelopes(body)?.into_iter();
    let (Some(first), None) = (messages.next(), messages.next()) else {
        return Err(RpcError::invalid("the call takes exactly one message"));
    };
    parse(first)
}

/// The messages of a body: a whole number of envelopes, without the end of the stream.
pub(super) fn envelopes(body: &[u8]) -> Result<Vec<&[u8]>, RpcError> {
    let mut messages = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let Some((head, contents)) = rest.split_at_checked(HEAD_BYTES) else {
            return Err(RpcError::invalid("an envelope is cut off in its head"));
        };
        let flags = head[0];
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let Some((message, after)) = contents.split_at_checked(length) else {
            return Err(RpcError::invalid(format!(
                "an envelope announces {length} bytes and has {}",
                contents.len()
            )));
        };
        if flags & COMPRESSED != 0 {
            return Err(RpcError::invalid("compressed envelopes are not offered"));
        }
        if flags & END_OF_STREAM == 0 {
            messages.push(message);
        }
        rest = after;
    }
    Ok(messages)
}

fn parse<T: DeserializeOwned>(message: &[u8]) -> Result<T, RpcError> {
    let message = if message.is_empty() { b"{}" } else { message };
    checked_values(message).map_err(E2bError::from)?;
    serde_json::from_slice(message)
        .map_err(|error| RpcError::invalid(format!("the message cannot be read: {error}")))
}

fn has_type(headers: &HeaderMap, wanted: &str) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind.map(|kind| kind.split(';').next().unwrap_or(kind).trim());
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case(wanted))
}

/// How long the client waits for the call; `None` without an end.
pub(super) fn timeout_of(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("connect-timeout-ms")?.to_str().ok()?;
    let millis = text.parse().ok().filter(|millis| *millis > 0)?;
    Some(Duration::from_millis(millis).min(MAX_TIMEOUT))
}

/// How often the client wants a sign of life.
pub(super) fn keepalive_of(headers: &HeaderMap) -> Duration {
    const DEFAULT_SECONDS: u64 = 50;
    let text = headers.get("keepalive-ping-interval");
    let seconds = text.and_then(|text| text.to_str().ok()?.parse().ok());
    Duration::from_secs(seconds.unwrap_or(DEFAULT_SECONDS).clamp(1, 3600))
}

/// An envelope around a message.
fn envelope(flags: u8, message: &Value) -> Bytes {
    let contents = message.to_string();
    let length = u32::try_from(contents.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(HEAD_BYTES + contents.len());
    bytes.push(flags);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(contents.as_bytes());
    bytes.into()
}

/// The sending end of a stream. Sending fails once the client is gone.
#[derive(Clone, Debug)]
pub(super) struct StreamSender(mpsc::Sender<Result<Bytes, std::io::Error>>);

/// The client of a stream is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientGone;

impl StreamSender {
    /// Sends a message.
    pub(super) async fn send(&self, message: &Value) -> Result<(), ClientGone> {
        let sent = self.0.send(Ok(envelope(0, message))).await;
        sent.map_err(|_| ClientGone)
    }

    /// Ends the stream well, or with the reason why it ends early.
    pub(super) async fn end(self, outcome: Result<(), RpcError>) {
        let last = match outcome {
            Ok(()) => json!({}),
            Err(error) => json!({"error": error.json()}),
        };
        let _ = self.0.send(Ok(envelope(END_OF_STREAM, &last))).await;
    }

    /// Breaks the connection off, so that the client asks whether the sandbox lives.
    pub(super) async fn break_off(self) {
        let broken = std::io::Error::new(std::io::ErrorKind::ConnectionReset, "the sandbox ended");
        let _ = self.0.send(Err(broken)).await;
    }

    /// Returns when the client is gone.
    pub(super) async fn closed(&self) {
        self.0.closed().await;
    }
}

/// A stream as the answer to a call, and the end that fills it.
pub(super) fn stream_response() -> (StreamSender, Response) {
    // A client that reads slowly holds the sender up: what a process writes is not kept in memory without a bound.
    const MAX_WAITING: usize = 16;
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    let messages = stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|message| (message, receiver))
    });
    let mut response = Response::new(Body::from_stream(messages));
    let kind = HeaderValue::from_static(STREAM_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    (StreamSender(sender), response)
}

/// An answer to a streaming call that ends with an error at once.
pub(super) async fn failed_stream(error: RpcError) -> Response {
    let (sender, response) = stream_response();
    sender.end(Err(error)).await;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(kind: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))])
    }

    #[test]
    fn a_message_comes_back_out_of_its_envelope() {
        let body = envelope(0, &json!({"path": "ä"}));
        let read: Result<Value, _> = stream_request(&headers(STREAM_TYPE), &body);
        assert_eq!(read, Ok(json!({"path": "ä"})));
    }

    #[test]
    fn malformed_envelopes_are_refused() {
        let whole = envelope(0, &json!({}));
        let mut twice = whole.to_vec();
        twice.extend_from_slice(&whole);
        let cases: [(&str, Vec<u8>); 7] = [
            ("nothing", Vec::new()),
            ("half a head", vec![0, 0, 0]),
            ("half a message", vec![0, 0, 0, 0, 9, b'{', b'}']),
            (
                "a length of four gigabytes",
                vec![0, 255, 255, 255, 255, b'{'],
            ),
            ("compressed", envelope(COMPRESSED, &json!({})).to_vec()),
            ("no JSON", vec![0, 0, 0, 0, 1, b'{']),
            ("two messages", twice),
        ];
        for (what, body) in cases {
            let read: Result<Value, _> = stream_request(&headers(STREAM_TYPE), &body.into());
            assert_eq!(
                read.map_err(|error| error.code),
                Err(RpcCode::InvalidArgument),
                "{what}"
            );
        }
    }

    #[test]
    fn another_codec_is_refused() {
        let read: Result<Value, _> =
            unary_request(&headers("application/proto"), &Bytes::from_static(b"{}"));
        assert_eq!(
            read.map_err(|error| error.code),
            Err(RpcCode::InvalidArgument)
        );
        let read: Result<Value, _> = stream_request(
            &headers("application/connect+proto"),
            &envelope(0, &json!({})),
        );
        assert_eq!(
            read.map_err(|error| error.code),
            Err(RpcCode::InvalidArgument)
        );
    }
}

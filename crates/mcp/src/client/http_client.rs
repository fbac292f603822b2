//! The HTTP client for servers with an address. It differs from that of `rmcp` in three things: an answer to a message has a length limit,
//! whether it is JSON, a stream of events or an error; the events of all streams are counted; and whatever waits for the server ends with the
//! connection.

use super::message_budget::{BYTES_PER_MESSAGE, MessageBudget};
use super::program::MAX_LINE_BYTES;
use bytes::{Bytes, BytesMut};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};
use std::collections::HashMap;
use std::sync::Arc;

type Failure = StreamableHttpError<reqwest::Error>;
type Events = BoxStream<'static, Result<Sse, SseError>>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// How many times one message is sent on to another path of the same server.
const MAX_REDIRECTS: usize = 10;
/// What is read of an answer that only says what went wrong.
const MAX_ERROR_BYTES: usize = 1 << 20;
/// How much of an answer that is no message a person is shown.
const MAX_SHOWN_CHARS: usize = 256;

/// Sends messages to one server, and reads answers of a bounded length.
#[derive(Clone, Debug)]
pub(super) struct BoundedHttpClient {
    client: Client,
    budget: Arc<MessageBudget>,
}

impl BoundedHttpClient {
    pub(super) fn new(budget: Arc<MessageBudget>) -> Result<BoundedHttpClient, String> {
        let redirects = Policy::custom(|attempt| {
            let keeps_body = [
                StatusCode::TEMPORARY_REDIRECT,
                StatusCode::PERMANENT_REDIRECT,
            ]
            .contains(&attempt.status());
            let origin = attempt.previous().first().map(|first| first.origin());
            // Another server must not get the token.
            if !keeps_body || origin != Some(attempt.url().origin()) {
                attempt.stop()
            } else if attempt.previous().len() > MAX_REDIRECTS {
                attempt.error("there are too many redirects")
            } else {
                attempt.follow()
            }
        });
        Client::builder()
            // A connection whose answer was not read to its end is slow for the next one.
            .pool_max_idle_per_host(0)
            .redirect(redirects)
            .build()
            .map(|client| BoundedHttpClient { client, budget })
            .map_err(|error| format!("no HTTP client could be made: {error}"))
    }
}

impl StreamableHttpClient for BoundedHttpClient {
    type Error = reqwest::Error;

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<Events, Failure> {
        // A server that ends the stream again and again makes the client ask again and again.
        if !self.budget.take(1) {
            return Err(ended());
        }
        let asked = self.client.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            custom_headers,
            MAX_LINE_BYTES,
        );
        let events = until_end(&self.budget, asked).await?;
        Ok(counted(events, Arc::clone(&self.budget)))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), Failure> {
        self.client
            .delete_session(uri, session_id, auth_header, custom_headers)
            .await
    }

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let accepted = [EVENT_STREAM_MIME_TYPE, JSON_MIME_TYPE].join(", ");
        let mut request = self.client.post(uri.as_ref()).header(ACCEPT, accepted);
        if let Some(token) = auth_header {
            request = request.bearer_auth(token);
        }
        for (name, value) in custom_headers {
            request = request.header(name, value);
        }
        let has_session = session_id.is_some();
        if let Some(session_id) = session_id {
            request = request.header(HEADER_SESSION_ID, session_id.as_ref());
        }
        let request = request.json(&message);
        until_end(&self.budget, async {
            let response = request.send().await?;
            Answer {
                status: response.status(),
                session_id: header_text(response.headers(), HEADER_SESSION_ID),
                kind: header_text(response.headers(), CONTENT_TYPE.as_str()).unwrap_or_default(),
                response,
                message,
                has_session,
                budget: Arc::clone(&self.budget),
            }
            .read()
            .await
        })
        .await
    }
}

/// Waits for something from the server, at most until the connection ends.
async fn until_end<T>(
    budget: &MessageBudget,
    awaited: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        () = budget.ended() => Err(ended()),
        outcome = awaited => outcome,
    }
}

/// An answer to a message, of which nothing but the head is read.
struct Answer {
    response: Response,
    status: StatusCode,
    kind: String,
    session_id: Option<String>,
    /// The message that it answers.
    message: ClientJsonRpcMessage,
    /// Whether the message named a session.
    has_session: bool,
    budget: Arc<MessageBudget>,
}

impl Answer {
    async fn read(self) -> Result<StreamableHttpPostResponse, Failure> {
        if let Some(failure) = self.missing_credentials() {
            return Err(failure);
        }
        if [StatusCode::ACCEPTED, StatusCode::NO_CONTENT].contains(&self.status) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if self.status == StatusCode::NOT_FOUND && self.has_session {
            return Err(Failure::SessionExpired);
        }
        if !self.status.is_success() {
            return self.read_failure().await;
        }
        if self.request().is_none() && self.response.content_length() == Some(0) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if self.kind.starts_with(EVENT_STREAM_MIME_TYPE) {
            let events = bounded_events(self.response.bytes_stream(), self.message);
            let events = counted(events, self.budget);
            return Ok(StreamableHttpPostResponse::Sse(events, self.session_id));
        }
        if !self.kind.starts_with(JSON_MIME_TYPE) {
            let kind = Some(self.kind).filter(|kind| !kind.is_empty());
            return Err(Failure::UnexpectedContentType(kind));
        }
        // The answer of a call is not counted.
        let counted = match is_request(&self.message) {
            true => None,
            false => Some(&*self.budget),
        };
        let body = bounded_body(self.response, MAX_LINE_BYTES, counted).await?;
        match serde_json::from_slice(&body) {
            Ok(message) => Ok(StreamableHttpPostResponse::Json(message, self.session_id)),
            // It needs no answer.
            Err(_) if !is_request(&self.message) => Ok(StreamableHttpPostResponse::Accepted),
            Err(error) => Err(unexpected(format!(
                "it is no message of the protocol ({error}): {}",
                beginning(&body)
            ))),
        }
    }

    fn missing_credentials(&self) -> Option<Failure> {
        let challenge = header_text(self.response.headers(), WWW_AUTHENTICATE.as_str())?;
        match self.status {
            StatusCode::UNAUTHORIZED => {
                Some(Failure::AuthRequired(AuthRequiredError::new(challenge)))
            }
            StatusCode::FORBIDDEN => Some(Failure::InsufficientScope(InsufficientScopeError::new(
                challenge, None,
            ))),
            _ => None,
        }
    }

    /// An answer with the status of an error can still be a message that says why.
    async fn read_failure(self) -> Result<StreamableHttpPostResponse, Failure> {
        let status = self.status;
        let is_json = self.kind.starts_with(JSON_MIME_TYPE);
        let is_late = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        let retry_after = header_text(self.response.headers(), RETRY_AFTER.as_str());
        let by_status = || Failure::from(HttpStatusError::new(status.as_u16(), retry_after));
        if is_late && (!is_json || status == StatusCode::TOO_MANY_REQUESTS) {
            return Err(by_status());
        }
        let request = self.request().map(|(id, request)| {
            (
                id.clone(),
                matches!(request, ClientRequest::DiscoverRequest(_)),
            )
        });
        let has_session = self.has_session;
        let counted = match request {
            Some(_) => None,
            None => Some(&*self.budget),
        };
        let body = bounded_body(self.response, MAX_ERROR_BYTES, counted)
            .await
            .unwrap_or_default();
        let is_refusal = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status);
        let error = match serde_json::from_slice(&body) {
            Ok(ServerJsonRpcMessage::Error(error)) => Some(error),
            _ => None,
        };
        // A server that does not know `server/discover` may refuse it without its id, or in plain text.
        if let Some((id, true)) = &request
            && status.is_client_error()
            && !is_refusal
            && !has_session
        {
            let data = error.map(|error| error.error).unwrap_or_else(|| {
                ErrorData::invalid_request(format!("HTTP {status}: {}", beginning(&body)), None)
            });
            let message = ServerJsonRpcMessage::error(data, Some(id.clone()));
            return Ok(StreamableHttpPostResponse::Json(message, None));
        }
        match error {
            Some(error) if is_json && !is_refusal => Ok(StreamableHttpPostResponse::Json(
                ServerJsonRpcMessage::Error(error),
                self.session_id,
            )),
            _ if is_late => Err(by_status()),
            _ => Err(unexpected(format!("HTTP {status}: {}", beginning(&body)))),
        }
    }

    fn request(&self) -> Option<(&RequestId, &ClientRequest)> {
        match &self.message {
            ClientJsonRpcMessage::Request(request) => Some((&request.id, &request.request)),
            _ => None,
        }
    }
}

fn is_request(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Request(_))
}

fn header_text(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn unexpected(what: String) -> Failure {
    Failure::UnexpectedServerResponse(what.into())
}

fn ended() -> Failure {
    unexpected("the connection has ended".to_owned())
}

fn beginning(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * MAX_SHOWN_CHARS)]);
    text.chars().take(MAX_SHOWN_CHARS).collect()
}

fn too_long(limit: usize) -> String {
    format!("its answer is longer than {} MiB", limit >> 20)
}

/// The whole body of an answer, or an error when it is longer than `limit`. Its bytes are taken from the budget, if there is one.
async fn bounded_body(
    response: Response,
    limit: usize,
    budget: Option<&MessageBudget>,
) -> Result<Bytes, Failure> {
    let mut pieces = response.bytes_stream();
    let mut body = BytesMut::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece?;
        if body.len() + piece.len() > limit {
            return Err(unexpected(too_long(limit)));
        }
        let before = body.len() / BYTES_PER_MESSAGE;
        body.extend_from_slice(&piece);
        if let Some(budget) = budget
            && !budget.take(body.len() / BYTES_PER_MESSAGE - before)
        {
            return Err(ended());
        }
    }
    Ok(body.freeze())
}

/// Counts the bytes of the event that is read.
#[derive(Default)]
struct EventLength {
    event: usize,
    line: usize,
}

impl EventLength {
    /// Counts bytes that came. `false` when an event is longer than `limit`.
    fn add(&mut self, bytes: &[u8], limit: usize) -> bool {
        for byte in bytes {
            match byte {
                // It may belong to a line's end, and is no line of its own then.
                b'\r' => {}
                b'\n' if self.line == 0 => self.event = 0,
                b'\n' => self.line = 0,
                _ => {
                    self.line += 1;
                    self.event += 1;
                }
            }
            if self.event > limit {
                return false;
            }
        }
        true
    }
}

#[derive(Debug, thiserror::Error)]
enum EventError {
    #[error(transparent)]
    Lost(#[from] reqwest::Error),
    #[error("{}", too_long(MAX_LINE_BYTES))]
    TooLong,
}

/// The events of an answer. In the place of one that is too long comes the error that answers the message: the caller hears of it, and the
/// stream is not asked for again.
fn bounded_events(
    pieces: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
    message: ClientJsonRpcMessage,
) -> Events {
    let mut length = EventLength::default();
    let bounded = pieces.map(move |piece| {
        let piece = piece?;
        match length.add(&piece, MAX_LINE_BYTES) {
            true => Ok(piece),
            false => Err(EventError::TooLong),
        }
    });
    let is_too_long = |error: &SseError| match error {
        SseError::Body(error) => matches!(error.downcast_ref(), Some(EventError::TooLong)),
        _ => false,
    };
    SseStream::from_bytes_stream(bounded)
        .map(move |event| match event {
            Err(error) if is_too_long(&error) => Ok(refusal(&message)),
            event => event,
        })
        .boxed()
}

/// Counts events. The stream ends when there are too many, and with the connection.
fn counted(events: Events, budget: Arc<MessageBudget>) -> Events {
    events
        .take_until(budget.ended())
        .take_while(move |event| {
            let data = event.as_ref().ok().and_then(|event| event.data.as_deref());
            std::future::ready(budget.take_event(data.unwrap_or_default()))
        })
        .boxed()
}

/// An event that says in a server's name that its answer is too long.
fn refusal(message: &ClientJsonRpcMessage) -> Sse {
    let id = match message {
        ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    };
    let error = ErrorData::new(ErrorCode::INTERNAL_ERROR, too_long(MAX_LINE_BYTES), None);
    let message = ServerJsonRpcMessage::error(error, id);
    Sse {
        data: serde_json::to_string(&message).ok(),
        ..Sse::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_ends_with_an_empty_line_and_no_other() {
        let fits = |text: &str| EventLength::default().add(text.as_bytes(), 8);
        assert!(fits("data: ab\n\ndata: ab\r\n\r\ndata: ab"));
        assert!(!fits("data: abc"));
        assert!(!fits("data:\r\ndata:\r\n"));
        assert!(!fits("data:\n:\ndata:\n"));
    }
}

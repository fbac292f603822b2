//! The HTTP client for servers with an address. It differs from that of `rmcp` in three things: an answer to a message has a limit in bytes
//! and in memory, whether it is JSON, a stream of events or an error; the events of all streams are counted; and whatever waits for the server
//! ends with the connection.

use super::events::{Events, bounded_events};
use super::message_budget::{BYTES_PER_MESSAGE, MessageBudget};
use crate::message_size::{MAX_MESSAGE_BYTES, MAX_MESSAGE_MEMORY, TooLarge};
use bytes::{Bytes, BytesMut};
use cellblock_protocol::{JsonError, parse_json_within};
use futures_util::StreamExt as _;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpClient,
    StreamableHttpError, StreamableHttpPostResponse,
};
use std::collections::HashMap;
use std::sync::Arc;

type Failure = StreamableHttpError<reqwest::Error>;
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

    /// Adds to a request what every request has.
    fn request(
        &self,
        request: RequestBuilder,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> RequestBuilder {
        let accepted = [EVENT_STREAM_MIME_TYPE, JSON_MIME_TYPE].join(", ");
        let mut request = request.header(ACCEPT, accepted);
        if let Some(token) = auth_header {
            request = request.bearer_auth(token);
        }
        for (name, value) in custom_headers {
            request = request.header(name, value);
        }
        request
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
        if !self.budget.try_take(1) {
            return Err(ended());
        }
        let mut request = self.request(self.client.get(uri.as_ref()), auth_header, custom_headers);
        if let Some(session_id) = session_id {
            request = request.header(HEADER_SESSION_ID, session_id.as_ref());
        }
        if let Some(last_event_id) = last_event_id {
            request = request.header(HEADER_LAST_EVENT_ID, last_event_id);
        }
        until_end(&self.budget, async {
            let response = request.send().await?;
            let kind = header_text(response.headers(), CONTENT_TYPE.as_str());
            match response.status() {
                StatusCode::METHOD_NOT_ALLOWED => return Err(Failure::ServerDoesNotSupportSse),
                status if status.is_success() => {}
                status => {
                    return Err(match missing_credentials(status, response.headers()) {
                        Some(failure) => failure,
                        None => by_status(status, response.headers()),
                    });
                }
            }
            match kind {
                Some(kind) if kind.starts_with(EVENT_STREAM_MIME_TYPE) => {
                    Ok(bounded_events(response.bytes_stream(), None, &self.budget))
                }
                kind => Err(Failure::UnexpectedContentType(kind)),
            }
        })
        .await
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
        let mut request = self.request(self.client.post(uri.as_ref()), auth_header, custom_headers);
        let has_session = session_id.is_some();
        if let Some(session_id) = session_id {
            request = request.header(HEADER_SESSION_ID, session_id.as_ref());
        }
        let request = request.json(&message);
        until_end(&self.budget, async {
            let response = request.send().await?;
            HttpAnswer {
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
struct HttpAnswer {
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

impl HttpAnswer {
    async fn read(self) -> Result<StreamableHttpPostResponse, Failure> {
        if let Some(failure) = missing_credentials(self.status, self.response.headers()) {
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
            let request = self.request().map(|(id, _)| id.clone());
            let events = bounded_events(self.response.bytes_stream(), request, &self.budget);
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
        let body = bounded_body(self.response, MAX_MESSAGE_BYTES, counted).await?;
        match parse_json_within(&body, MAX_MESSAGE_MEMORY) {
            Ok(message) => Ok(StreamableHttpPostResponse::Json(message, self.session_id)),
            // It needs no answer.
            Err(_) if !is_request(&self.message) => Ok(StreamableHttpPostResponse::Accepted),
            Err(JsonError::TooManyValues { .. }) => Err(unexpected(TooLarge::Memory.to_string())),
            Err(JsonError::Json(error)) => Err(unexpected(format!(
                "it is no message of the protocol ({error}): {}",
                beginning(&body)
            ))),
        }
    }

    /// An answer with the status of an error can still be a message that says why.
    async fn read_failure(self) -> Result<StreamableHttpPostResponse, Failure> {
        let status = self.status;
        let is_json = self.kind.starts_with(JSON_MIME_TYPE);
        let is_late = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        let late = by_status(status, self.response.headers());
        if is_late && (!is_json || status == StatusCode::TOO_MANY_REQUESTS) {
            return Err(late);
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
        let error = match parse_json_within(&body, MAX_MESSAGE_MEMORY) {
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
            _ if is_late => Err(late),
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

/// The failure of a request without the credentials that the server asks for.
fn missing_credentials(status: StatusCode, headers: &HeaderMap) -> Option<Failure> {
    let challenge = header_text(headers, WWW_AUTHENTICATE.as_str())?;
    match status {
        StatusCode::UNAUTHORIZED => Some(Failure::AuthRequired(AuthRequiredError::new(challenge))),
        StatusCode::FORBIDDEN => Some(Failure::InsufficientScope(InsufficientScopeError::new(
            challenge, None,
        ))),
        _ => None,
    }
}

/// The failure that the status of an answer tells.
fn by_status(status: StatusCode, headers: &HeaderMap) -> Failure {
    let retry_after = header_text(headers, RETRY_AFTER.as_str());
    Failure::from(HttpStatusError::new(status.as_u16(), retry_after))
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
            return Err(unexpected(format!(
                "its answer is longer than {} MiB",
                limit >> 20
            )));
        }
        let before = body.len() / BYTES_PER_MESSAGE;
        body.extend_from_slice(&piece);
        if let Some(budget) = budget
            && !budget.try_take(body.len() / BYTES_PER_MESSAGE - before)
        {
            return Err(ended());
        }
    }
    Ok(body.freeze())
}

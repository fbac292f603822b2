//! The lines that the pipe writes.

use serde::Serialize;
use serde_json::Value;

use super::request::{PipeError, RequestId};
use crate::Event;

/// One line that goes out: the request that it answers, the session, and the event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Response {
    id: Option<RequestId>,
    session: Option<String>,
    #[serde(flatten)]
    body: Body,
}

impl Response {
    /// Something happened while a request was served. `id` is `None` for what belongs to no request, such as `log`.
    pub fn event(id: Option<RequestId>, session: impl Into<String>, event: Event) -> Self {
        Self {
            id,
            session: Some(session.into()),
            body: Body::Event(event),
        }
    }

    /// A request that is not a `run` is done, and this came of it.
    pub fn answer(
        id: Option<RequestId>,
        session: impl Into<String>,
        answer: impl Into<Value>,
    ) -> Self {
        Self {
            id,
            session: Some(session.into()),
            body: Body::Answer {
                event: "answer",
                answer: answer.into(),
            },
        }
    }

    /// Something happened in a run of an agent. The event is an object with a field `event`.
    pub fn agent_event(id: Option<RequestId>, session: impl Into<String>, event: Value) -> Self {
        Self {
            id,
            session: Some(session.into()),
            body: Body::Agent(event),
        }
    }

    /// The line of an answer to `get_file`, in two parts, for contents that are not held in memory: between them goes their base64. The
    /// second part takes how many bytes the contents were, and why there are no more where they could not be read to their end.
    pub fn file_line(
        id: Option<RequestId>,
        session: impl Into<String>,
    ) -> (String, impl Fn(u64, Option<&str>) -> String) {
        let mut before = Self::answer(id, session, Value::Null).to_line();
        before.truncate(before.len() - "null}\n".len());
        before.push_str(r#"{"base64":""#);
        let after = |size, error: Option<&str>| {
            let error = error.map_or_else(String::new, |error| {
                format!(r#","error":{}"#, Value::from(error))
            });
            format!("\",\"size\":{size}{error}}}}}\n")
        };
        (before, after)
    }

    /// The line with its newline.
    pub fn to_line(&self) -> String {
        // Text keys and plain values: serialising them cannot fail, and numbers that JSON lacks become null.
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }
}

impl From<PipeError> for Response {
    fn from(error: PipeError) -> Self {
        let event = Event::Error {
            code: error.code.to_owned(),
            message: error.message,
        };
        Self {
            id: error.id,
            session: error.session,
            body: Body::Event(event),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
enum Body {
    Event(Event),
    Answer { event: &'static str, answer: Value },
    Agent(Value),
}

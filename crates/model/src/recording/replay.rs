//! A recording as a model.

use super::difference::difference;
use super::file::{Exchange, Header, read};
use super::normal::normal;
use crate::played::play;
use crate::{Capabilities, Message, Model, ModelError, ReplyStream, Request, ResponseFormat};
use futures_util::{StreamExt, stream};
use serde_json::Value;
use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A model that answers as it is recorded, and only what is recorded.
///
/// A request gets the first exchange that fits and was not used yet, so runs that go on at the same time may share a recording.
pub struct Replay {
    header: Header,
    path: String,
    exchanges: Arc<Vec<Prepared>>,
    used: Arc<Mutex<Vec<bool>>>,
    compared: Compared,
}

/// What of a request must be as it was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compared {
    /// Everything.
    #[default]
    Request,
    /// What was said: not the instructions in front of it, the tools that are offered, or the form of the reply. These grow from version to
    /// version of this program; what came of a reply must still be the same, or the next one does not fit.
    Conversation,
}

struct Prepared {
    exchange: Exchange,
    normal: Value,
}

impl Replay {
    /// Reads a recording.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ModelError> {
        Self::open_comparing(path, Compared::Request)
    }

    /// The same, where only a part of the request must be as it was.
    pub fn open_comparing(path: impl AsRef<Path>, compared: Compared) -> Result<Self, ModelError> {
        let (header, exchanges) = read(path.as_ref())?;
        let prepared = exchanges.into_iter().map(|exchange| Prepared {
            normal: normal(&compared.part(&exchange.request)),
            exchange,
        });
        let prepared: Vec<_> = prepared.collect();
        Ok(Self {
            header,
            path: path.as_ref().display().to_string(),
            used: Arc::new(Mutex::new(vec![false; prepared.len()])),
            exchanges: Arc::new(prepared),
            compared,
        })
    }

    /// Where the replies come from.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How many exchanges were not asked for yet.
    pub fn left(&self) -> usize {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.iter().filter(|used| !**used).count()
    }
}

impl Model for Replay {
    fn name(&self) -> &str {
        &self.header.model
    }

    fn capabilities(&self) -> &Capabilities {
        &self.header.capabilities
    }

    fn stream(&self, request: Request) -> ReplyStream {
        let path = self.path.clone();
        let (exchanges, used) = (Arc::clone(&self.exchanges), Arc::clone(&self.used));
        let request = self.compared.part(&request).into_owned();
        let reply = async move {
            let mut used = used.lock().unwrap_or_else(PoisonError::into_inner);
            let outcome = answer(&path, &exchanges, &mut used, &request);
            play(outcome)
        };
        Box::pin(stream::once(reply).flatten())
    }
}

impl Compared {
    /// The request, without what is not compared.
    fn part(self, request: &Request) -> Cow<'_, Request> {
        if self == Self::Request {
            return Cow::Borrowed(request);
        }
        let is_instruction = |message: &&Message| matches!(message, Message::System { .. });
        let instructions = request.messages.iter().take_while(is_instruction).count();
        Cow::Owned(Request {
            messages: request.messages[instructions..].to_vec(),
            tools: Vec::new(),
            response_format: ResponseFormat::Text,
            ..request.clone()
        })
    }
}

fn answer(
    path: &str,
    exchanges: &[Prepared],
    used: &mut [bool],
    request: &Request,
) -> Result<crate::Reply, ModelError> {
    let asked = normal(request);
    let mut unused = exchanges
        .iter()
        .enumerate()
        .filter(|(index, _)| !used[*index]);
    if let Some((index, found)) = unused.clone().find(|(_, it)| it.normal == asked) {
        used[index] = true;
        return found.exchange.outcome.clone();
    }
    // The one that was meant is most likely the one that begins like this request and goes furthest with it.
    let agreement = |recorded: &Value| agreeing_messages(recorded, &asked);
    let first = unused.next();
    let nearest = unused.fold(first, |best, next| match best {
        Some(best) if agreement(&best.1.normal) >= agreement(&next.1.normal) => Some(best),
        _ => Some(next),
    });
    match nearest {
        Some((index, recorded)) => Err(ModelError::ReplayMismatch {
            path: path.to_owned(),
            exchange: index + 1,
            difference: difference(&recorded.normal, &asked),
        }),
        None => Err(ModelError::NoMoreReplies {
            source_of_replies: format!("the recording {path}"),
            replies: exchanges.len(),
        }),
    }
}

fn agreeing_messages(recorded: &Value, asked: &Value) -> usize {
    let messages = |request: &Value| request["messages"].as_array().cloned().unwrap_or_default();
    let (recorded, asked) = (messages(recorded), messages(asked));
    let pairs = recorded.iter().zip(&asked);
    pairs
        .take_while(|(recorded, asked)| recorded == asked)
        .count()
}

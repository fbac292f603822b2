//! A model with prepared replies, for tests and demonstrations.

use crate::model::stream_of;
use crate::{Capabilities, Model, ModelError, Reply, ReplyStream, Request};
use futures_util::{StreamExt, stream};
use std::sync::{Arc, Mutex, PoisonError};

/// A model with prepared replies. It keeps the requests, so that a test can check them.
///
/// ```
/// # use cellblock_model::{complete, Message, Reply, Request, ScriptedModel};
/// # futures_executor::block_on(async {
/// let model = ScriptedModel::new([Reply::text("4")]);
/// let request = Request::new(vec![Message::user("What is 2 + 2?")]);
/// let reply = complete(&model, request.clone()).await?;
/// assert_eq!(reply.text, "4");
/// assert_eq!(model.requests(), [request]);
/// # Ok::<(), cellblock_model::ModelError>(()) }).unwrap();
/// ```
pub struct ScriptedModel {
    name: String,
    capabilities: Capabilities,
    answer: Arc<AnswerRequest>,
    requests: Arc<Mutex<Vec<Arc<Request>>>>,
}

/// Answers a request. The number says how many requests came before it.
type AnswerRequest = dyn Fn(&Request, usize) -> Result<Reply, ModelError> + Send + Sync;

impl ScriptedModel {
    /// A model that gives these replies, one after the other.
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::with_outcomes(replies.into_iter().map(Ok))
    }

    /// A model that gives these replies and errors, one after the other.
    pub fn with_outcomes(outcomes: impl IntoIterator<Item = Result<Reply, ModelError>>) -> Self {
        let outcomes: Vec<_> = outcomes.into_iter().collect();
        Self::from_fn(move |_, index| match outcomes.get(index) {
            Some(outcome) => outcome.clone(),
            None => Err(ModelError::NoMoreReplies {
                source_of_replies: "the script".into(),
                replies: outcomes.len(),
            }),
        })
    }

    /// A model that answers by a function of the request and of the number of requests before it.
    pub fn from_fn(
        answer: impl Fn(&Request, usize) -> Result<Reply, ModelError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: "scripted".into(),
            capabilities: Capabilities {
                json_schema: true,
                context_tokens: 128_000,
                ..Capabilities::default()
            },
            answer: Arc::new(answer),
            requests: Arc::default(),
        }
    }

    /// The model with other capabilities.
    pub fn with_capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// The requests so far, in order.
    pub fn requests(&self) -> Vec<Request> {
        let requests = self.requests.lock();
        let requests = requests.unwrap_or_else(PoisonError::into_inner);
        requests.iter().map(|request| (**request).clone()).collect()
    }
}

impl Model for ScriptedModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn stream(&self, request: Request) -> ReplyStream {
        let answer = Arc::clone(&self.answer);
        let requests = Arc::clone(&self.requests);
        let request = Arc::new(request);
        let reply = async move {
            let index = {
                let mut requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
                requests.push(Arc::clone(&request));
                requests.len() - 1
            };
            stream_of(answer(&request, index))
        };
        Box::pin(stream::once(reply).flatten())
    }
}

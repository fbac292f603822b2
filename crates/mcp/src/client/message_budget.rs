//! How much a server may send that answers no call: notifications, questions of its own, lines that are no messages. A server that sends
//! more is ended, so that reading it costs the host a bounded share of a processor and of memory.

use rmcp::model::{
    ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerNotification,
    ServerRequest,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::{RoleClient, model};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How many messages a server may send at once that answer no call, and how many more in each second.
const MAX_AT_ONCE: f64 = 20_000.0;
const MAX_PER_SECOND: f64 = 2_000.0;
/// How many questions of a server may wait until it has read their answers.
const MAX_QUESTIONS: usize = 1_000;
/// The most characters of the id and of the method of a question: an answer repeats both.
const MAX_NAME_CHARS: usize = 256;

const TOO_MANY_MESSAGES: &str = "it sent more than 20 000 messages that answer no call, or more than 2 000 in a second for long, and was ended";
const TOO_MANY_QUESTIONS: &str =
    "it has asked 1000 questions whose answers it does not read, and was ended";
const LONG_QUESTION: &str =
    "it sent a request whose id or method is longer than 256 characters, and was ended";

/// What one connection to a server has left. Every message takes one; the answer of a call gives it back.
#[derive(Debug)]
pub(super) struct MessageBudget {
    bucket: Mutex<Bucket>,
    reason: OnceLock<&'static str>,
    exceeded: CancellationToken,
}

#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl MessageBudget {
    pub(super) fn new() -> Arc<MessageBudget> {
        Arc::new(MessageBudget {
            bucket: Mutex::new(Bucket {
                left: MAX_AT_ONCE,
                at: Instant::now(),
            }),
            reason: OnceLock::new(),
            exceeded: CancellationToken::new(),
        })
    }

    /// Counts a message that came. `false` when the connection must end.
    pub(super) fn take(&self) -> bool {
        let is_left = lock(&self.bucket).take(Instant::now());
        if !is_left {
            self.exceed(TOO_MANY_MESSAGES);
        }
        is_left && self.reason().is_none()
    }

    /// Why the connection must end, once that is so.
    pub(super) fn reason(&self) -> Option<&'static str> {
        self.reason.get().copied()
    }

    fn give_back(&self) {
        let mut bucket = lock(&self.bucket);
        bucket.left = (bucket.left + 1.0).min(MAX_AT_ONCE);
    }

    fn exceed(&self, reason: &'static str) {
        let _ = self.reason.set(reason);
        self.exceeded.cancel();
    }
}

impl Bucket {
    fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * MAX_PER_SECOND).min(MAX_AT_ONCE);
        self.at = now;
        let is_left = self.left >= 1.0;
        if is_left {
            self.left -= 1.0;
        }
        is_left
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection that ends when its budget is used up. What came is counted below, where it is read; here answers of calls are told from
/// everything else.
pub(super) struct BudgetedTransport<T> {
    transport: T,
    budget: Arc<MessageBudget>,
    /// Calls without an answer.
    calls: HashSet<RequestId>,
    /// Questions of the server whose answers it has not read.
    questions: Arc<Mutex<HashSet<RequestId>>>,
}

impl<T> BudgetedTransport<T> {
    pub(super) fn new(transport: T, budget: Arc<MessageBudget>) -> BudgetedTransport<T> {
        BudgetedTransport {
            transport,
            budget,
            calls: HashSet::new(),
            questions: Arc::default(),
        }
    }

    fn note(&mut self, message: &ServerJsonRpcMessage) {
        match message {
            JsonRpcMessage::Response(response) => self.note_answer(&response.id),
            JsonRpcMessage::Error(error) => {
                if let Some(id) = &error.id {
                    self.note_answer(id);
                }
            }
            JsonRpcMessage::Request(question) => {
                if is_long(&question.id) || has_long_method(&question.request) {
                    self.budget.exceed(LONG_QUESTION);
                }
                let mut questions = lock(&self.questions);
                questions.insert(question.id.clone());
                if questions.len() >= MAX_QUESTIONS {
                    self.budget.exceed(TOO_MANY_QUESTIONS);
                }
            }
            JsonRpcMessage::Notification(notification) => {
                // A question that is taken back gets no answer.
                if let ServerNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    lock(&self.questions).remove(id);
                }
            }
        }
    }

    fn note_answer(&mut self, id: &RequestId) {
        if self.calls.remove(id) {
            self.budget.give_back();
        }
    }
}

fn is_long(id: &RequestId) -> bool {
    matches!(id, RequestId::String(text) if text.len() > MAX_NAME_CHARS)
}

fn has_long_method(request: &ServerRequest) -> bool {
    matches!(request, ServerRequest::CustomRequest(custom) if custom.method.len() > MAX_NAME_CHARS)
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for BudgetedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        let answered = match &message {
            ClientJsonRpcMessage::Request(call) => {
                self.calls.insert(call.id.clone());
                None
            }
            ClientJsonRpcMessage::Response(answer) => Some(answer.id.clone()),
            ClientJsonRpcMessage::Error(error) => error.id.clone(),
            ClientJsonRpcMessage::Notification(notification) => {
                if let model::ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.calls.remove(id);
                }
                None
            }
        };
        let questions = Arc::clone(&self.questions);
        let sending = self.transport.send(message);
        async move {
            let sent = sending.await;
            if let Some(id) = answered {
                lock(&questions).remove(&id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = tokio::select! {
            biased;
            () = self.budget.exceeded.cancelled() => None,
            message = self.transport.receive() => message,
        }?;
        self.note(&message);
        match self.budget.reason() {
            None => Some(message),
            Some(_) => None,
        }
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.transport.close().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_bucket_that_is_empty_fills_up_evenly() {
        let start = Instant::now();
        let mut bucket = Bucket {
            left: 3.0,
            at: start,
        };
        let taken = (0..5).filter(|_| bucket.take(start)).count();
        assert_eq!(taken, 3);
        let later = start + Duration::from_millis(2);
        let taken = (0..9).filter(|_| bucket.take(later)).count();
        assert_eq!(taken, 4);
        let much_later = start + Duration::from_secs(1000);
        let taken = (0..30_000).filter(|_| bucket.take(much_later)).count();
        assert_eq!(taken, 20_000);
    }
}

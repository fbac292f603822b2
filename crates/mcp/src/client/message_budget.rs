//! How much a server may send that answers no call: notifications, requests of its own, lines that are no messages. A server that sends
//! more is ended, so that reading it costs the host a bounded share of a processor and of memory.

use super::MessageLimit;
use crate::message_size::MessageHead;
use crate::open_requests::{OpenRequests, UnreadAnswer};
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    ServerNotification, ServerRequest,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};

/// A long message counts as one more for each of so many bytes.
pub(super) const BYTES_PER_MESSAGE: usize = 4_096;
/// How many requests of a server may have no answer, or an answer that it has not read.
const MAX_REQUESTS: usize = 1_000;
/// The longest id, and the longest method, of a request of a server: an answer repeats both.
const MAX_NAME_BYTES: usize = 256;

const TOO_MANY_REQUESTS: &str =
    "it has sent 1000 requests whose answers it does not read, and was ended";
const LONG_REQUEST: &str =
    "it sent a request whose id or method is longer than 256 bytes, and was ended";
/// The reason for the end of a program that leaves unread what is written to it.
pub(super) const READS_NOTHING: &str = "it reads nothing, and was ended";

/// What one connection to a server has left, and whether the connection goes on. Every message takes its cost; the answer of a call gives
/// it back.
#[derive(Debug)]
pub(super) struct MessageBudget {
    bucket: Mutex<Bucket>,
    /// Calls without an answer.
    calls: Mutex<HashSet<RequestId>>,
    /// What the last line of a program has cost.
    line_cost: AtomicUsize,
    limit: MessageLimit,
    reason: OnceLock<String>,
    ended: CancellationToken,
}

#[derive(Debug)]
struct Bucket {
    limit: MessageLimit,
    left: f64,
    at: Instant,
}

impl MessageBudget {
    pub(super) fn new(limit: MessageLimit) -> Arc<MessageBudget> {
        Arc::new(MessageBudget {
            bucket: Mutex::new(Bucket {
                limit,
                left: f64::from(limit.at_once),
                at: Instant::now(),
            }),
            limit,
            calls: Mutex::default(),
            line_cost: AtomicUsize::new(0),
            reason: OnceLock::new(),
            ended: CancellationToken::new(),
        })
    }

    /// Counts so many messages that came. `false` when the connection must end.
    pub(super) fn try_take(&self, count: usize) -> bool {
        if count > 0 && !lock(&self.bucket).try_take(count, Instant::now()) {
            self.exceed(self.limit.to_string());
        }
        !self.has_ended()
    }

    /// Counts an event of a server with an address, with data of so many bytes, unless it answers a call.
    pub(super) fn take_event(&self, head: &MessageHead, bytes: usize) {
        let is_answer =
            !head.has_method && (head.id.as_ref()).is_some_and(|id| lock(&self.calls).remove(id));
        if !is_answer {
            self.try_take(1 + bytes / BYTES_PER_MESSAGE);
        }
    }

    /// Notes what the line has cost that a program sent last.
    pub(super) fn set_line_cost(&self, cost: usize) {
        self.line_cost.store(cost, Ordering::SeqCst);
    }

    /// Why the connection must end, once that is so.
    pub(super) fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }

    /// Ends the connection, with a reason that its calls are given.
    pub(super) fn exceed(&self, reason: impl Into<String>) {
        let _ = self.reason.set(reason.into());
        self.ended.cancel();
    }

    /// Ends the connection when the guard is dropped. Otherwise what waits for the server could wait for ever, and be kept as long.
    pub(super) fn end_on_drop(&self) -> DropGuard {
        self.ended.clone().drop_guard()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Waits for the end of the connection.
    pub(super) fn ended(&self) -> WaitForCancellationFutureOwned {
        self.ended.clone().cancelled_owned()
    }

    /// Gives back what an answer has cost, if it answers a call.
    fn note_answer(&self, id: &RequestId) {
        if lock(&self.calls).remove(id) {
            let cost = self.line_cost.swap(0, Ordering::SeqCst);
            lock(&self.bucket).give_back(cost);
        }
    }
}

impl Bucket {
    fn try_take(&mut self, count: usize, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * f64::from(self.limit.per_second))
            .min(f64::from(self.limit.at_once));
        self.at = now;
        let is_left = self.left >= count as f64;
        if is_left {
            self.left -= count as f64;
        }
        is_left
    }

    fn give_back(&mut self, count: usize) {
        self.left = (self.left + count as f64).min(f64::from(self.limit.at_once));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection that ends when its budget is used up. What came is counted below, where it is read; here answers of calls are told from
/// everything else.
pub(super) struct BudgetedTransport<T> {
    /// None after the connection is closed.
    transport: Option<T>,
    budget: Arc<MessageBudget>,
    /// Requests of the server.
    requests: OpenRequests,
}

impl<T> BudgetedTransport<T> {
    pub(super) fn new(transport: T, budget: Arc<MessageBudget>) -> BudgetedTransport<T> {
        BudgetedTransport {
            transport: Some(transport),
            budget,
            requests: OpenRequests::default(),
        }
    }

    fn note_received(&mut self, message: &ServerJsonRpcMessage) {
        match message {
            JsonRpcMessage::Response(response) => self.budget.note_answer(&response.id),
            JsonRpcMessage::Error(error) => {
                if let Some(id) = &error.id {
                    self.budget.note_answer(id);
                }
            }
            JsonRpcMessage::Request(request) => {
                if is_long(&request.id) || has_long_method(&request.request) {
                    self.budget.exceed(LONG_REQUEST);
                }
                self.requests.begin(request.id.clone());
                if self.requests.count() >= MAX_REQUESTS {
                    self.budget.exceed(TOO_MANY_REQUESTS);
                }
            }
            JsonRpcMessage::Notification(notification) => {
                if let ServerNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.requests.cancel(id);
                }
            }
        }
    }

    /// Notes a message to the server. An answer counts as unread as long as the value that is returned is kept.
    fn note_sent(&mut self, message: &ClientJsonRpcMessage) -> Option<UnreadAnswer> {
        match message {
            ClientJsonRpcMessage::Request(call) => {
                lock(&self.budget.calls).insert(call.id.clone());
                None
            }
            ClientJsonRpcMessage::Response(answer) => Some(self.requests.answer(Some(&answer.id))),
            ClientJsonRpcMessage::Error(error) => Some(self.requests.answer(error.id.as_ref())),
            ClientJsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    lock(&self.budget.calls).remove(id);
                }
                None
            }
        }
    }
}

fn is_long(id: &RequestId) -> bool {
    matches!(id, RequestId::String(text) if text.len() > MAX_NAME_BYTES)
}

fn has_long_method(request: &ServerRequest) -> bool {
    matches!(request, ServerRequest::CustomRequest(custom) if custom.method.len() > MAX_NAME_BYTES)
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for BudgetedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        let unread = self.note_sent(&message);
        let ended = self.budget.ended();
        let sending = self
            .transport
            .as_mut()
            .map(|transport| transport.send(message));
        async move {
            let _unread = unread;
            let Some(sending) = sending else {
                return Ok(());
            };
            tokio::select! {
                biased;
                // `receive` tells the end.
                () = ended => Ok(()),
                sent = sending => sent,
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let transport = self.transport.as_mut()?;
        let message = tokio::select! {
            biased;
            () = self.budget.ended.cancelled() => None,
            message = transport.receive() => message,
        }?;
        self.note_received(&message);
        (!self.budget.has_ended()).then_some(message)
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        let Some(mut transport) = self.transport.take() else {
            return Ok(());
        };
        // Closing waits for messages that are on their way: for ever where the server reads nothing.
        tokio::select! {
            biased;
            () = self.budget.ended.cancelled() => Ok(()),
            closed = transport.close() => closed,
        }
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
            limit: MessageLimit::default(),
            left: 3.0,
            at: start,
        };
        let taken = (0..5).filter(|_| bucket.try_take(1, start)).count();
        assert_eq!(taken, 3);
        let later = start + Duration::from_millis(2);
        let taken = (0..9).filter(|_| bucket.try_take(1, later)).count();
        assert_eq!(taken, 4);
        let much_later = start + Duration::from_secs(1000);
        let taken = (0..30_000)
            .filter(|_| bucket.try_take(1, much_later))
            .count();
        assert_eq!(taken, 20_000);
    }
}

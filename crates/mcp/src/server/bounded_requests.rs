//! How many requests of one client are under way: a client that sends more, or reads no answers, must not fill the memory of the server.

use super::bounded_messages::{Refused, refusal};
use crate::open_requests::OpenRequests;
use rmcp::model::{ClientNotification, ErrorCode, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::{RoleServer, model};
use std::pin::Pin;

/// The most requests of a client that wait for their answer, or whose answer the client has not read.
const MAX_REQUESTS: usize = 256;
/// The longest id of a request: the answer repeats it.
const MAX_ID_BYTES: usize = 1024;
/// The code of JSON-RPC for errors of the server's own making.
const BUSY: ErrorCode = ErrorCode(-32_000);

type SendingRefusal = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection that refuses requests beyond a bound. A refusal is sent before anything more is read.
pub(super) struct BoundedRequests<T> {
    transport: T,
    under_way: OpenRequests,
    /// Messages that were refused before they were parsed.
    refused: Refused,
    /// The refusal that is being sent. Receiving may be given up meanwhile, and goes on with it then.
    refusal: Option<SendingRefusal>,
}

impl<T> BoundedRequests<T> {
    pub(super) fn new(transport: T, refused: Refused) -> BoundedRequests<T> {
        BoundedRequests {
            transport,
            under_way: OpenRequests::default(),
            refused,
            refusal: None,
        }
    }

    /// Counts a request, or says why it is refused.
    fn begin(&mut self, id: &RequestId) -> Result<(), ErrorData> {
        if matches!(id, RequestId::String(text) if text.len() > MAX_ID_BYTES) {
            let message = format!("the id of a request has at most {MAX_ID_BYTES} bytes");
            return Err(ErrorData::invalid_request(message, None));
        }
        if self.under_way.is_unanswered(id) {
            let message = "a request with this id is under way";
            return Err(ErrorData::invalid_request(message, None));
        }
        if self.under_way.count() >= MAX_REQUESTS {
            let message = format!("{MAX_REQUESTS} requests are under way; wait for their answers");
            return Err(ErrorData::new(BUSY, message, None));
        }
        self.under_way.begin(id.clone());
        Ok(())
    }
}

impl<T: Transport<RoleServer>> BoundedRequests<T> {
    /// Begins to send an error.
    fn refuse(&mut self, id: Option<RequestId>, error: ErrorData) {
        let id =
            id.filter(|id| !matches!(id, RequestId::String(text) if text.len() > MAX_ID_BYTES));
        let sending = self
            .transport
            .send(model::ServerJsonRpcMessage::error(error, id));
        self.refusal = Some(Box::pin(async move {
            // The client may have disconnected.
            let _ = sending.await;
        }));
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for BoundedRequests<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        let unread = match &message {
            JsonRpcMessage::Response(answer) => Some(self.under_way.answer(Some(&answer.id))),
            JsonRpcMessage::Error(error) => Some(self.under_way.answer(error.id.as_ref())),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let sending = self.transport.send(message);
        async move {
            let _unread = unread;
            sending.await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(refusal) = &mut self.refusal {
                refusal.await;
                self.refusal = None;
            }
            if let Some(refused) = self.refused.next() {
                let reason = refusal(refused.problem);
                self.refuse(refused.id, ErrorData::invalid_request(reason, None));
                continue;
            }
            let message = tokio::select! {
                biased;
                () = self.refused.added() => continue,
                message = self.transport.receive() => message?,
            };
            match &message {
                JsonRpcMessage::Request(request) => {
                    if let Err(error) = self.begin(&request.id) {
                        self.refuse(Some(request.id.clone()), error);
                        continue;
                    }
                }
                // A request that is cancelled gets no answer, unless the answer waits already to be read: then it still counts.
                JsonRpcMessage::Notification(notification) => {
                    if let ClientNotification::CancelledNotification(cancelled) =
                        &notification.notification
                        && let Some(id) = &cancelled.params.request_id
                    {
                        self.under_way.cancel(id);
                    }
                }
                JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
            }
            return Some(message);
        }
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.transport.close().await
    }
}

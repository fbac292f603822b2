//! The control channel: requests that are done at once, also while a cell runs.

use super::output::MessageSender;
use super::sessions::CurrentSession;
use super::{KernelAbout, KernelEnd, answers};
use crate::message::Message;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

pub(super) struct ControlLoop {
    pub(super) outlet: MessageSender,
    pub(super) about: KernelAbout,
    pub(super) current: CurrentSession,
    pub(super) ended: Arc<watch::Sender<Option<KernelEnd>>>,
}

impl ControlLoop {
    /// Answers requests until there is no one left to send any.
    pub(super) async fn run(self, mut requests: mpsc::Receiver<Message>) {
        while let Some(request) = requests.recv().await {
            self.answer(&request).await;
        }
    }

    async fn answer(&self, request: &Message) {
        let reply = |kind, content| self.outlet.control_reply(kind, request, content);
        match request.kind() {
            "kernel_info_request" => {
                reply("kernel_info_reply", answers::kernel_info(&self.about)).await;
            }
            "interrupt_request" => {
                self.current.interrupt();
                reply("interrupt_reply", json!({"status": "ok"})).await;
            }
            "shutdown_request" => {
                let restart = request.flag("restart", false);
                let content = json!({"status": "ok", "restart": restart});
                reply("shutdown_reply", content).await;
                self.ended.send_replace(Some(KernelEnd { restart }));
            }
            "usage_request" => {
                let content = json!({"pid": std::process::id()});
                reply("usage_reply", json!({"content": content})).await;
            }
            other => {
                if let Some(kind) = answers::reply_kind(other) {
                    reply(&kind, answers::not_offered(other)).await;
                }
            }
        }
    }
}

//! What a cell prints, told while it runs: progress notifications with the text as their message.

use cellblock_protocol::Event;
use cellblock_tools::{OnToolEvent, ToolEvent};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use rmcp::{Peer, RoleServer};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Notifications come at most so often: a loop that prints must not flood the client.
const PAUSE: Duration = Duration::from_millis(50);
/// The text that waits for a client that is slow to read.
const MAX_QUEUED_BYTES: usize = 64 << 10;
/// How long the last words may take. The result has all of it anyway.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The progress of one call, for a client that asked for it.
pub(super) struct Live {
    waiting: Arc<Waiting>,
    telling: JoinHandle<()>,
}

#[derive(Default)]
struct Waiting {
    text: Mutex<Text>,
    news: Notify,
}

#[derive(Default)]
struct Text {
    text: String,
    left_out: usize,
    is_over: bool,
}

impl Live {
    /// When the client asked for progress.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Option<Live> {
        let token = context.meta.get_progress_token()?;
        let waiting = Arc::new(Waiting::default());
        let telling = tokio::spawn(tell(Arc::clone(&waiting), context.peer.clone(), token));
        Some(Live { waiting, telling })
    }

    /// Who watches the call.
    pub(super) fn watcher(&self) -> OnToolEvent {
        let waiting = Arc::clone(&self.waiting);
        Arc::new(move |happening| {
            if let Some(text) = words(happening) {
                waiting.lock().add(&text);
                waiting.news.notify_one();
            }
        })
    }

    /// The call is over: tells what is left, so that nothing comes after the result.
    pub(super) async fn finish(mut self) {
        self.waiting.lock().is_over = true;
        self.waiting.news.notify_one();
        let _ = tokio::time::timeout(LAST_WORDS, &mut self.telling).await;
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.telling.abort();
    }
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Text> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Text {
    /// The newest text is kept.
    fn add(&mut self, more: &str) {
        self.text.push_str(more);
        if self.text.len() > MAX_QUEUED_BYTES {
            let from = self.text.len() - MAX_QUEUED_BYTES / 2;
            let whole = |cut: &usize| self.text.is_char_boundary(*cut);
            let cut = (from..self.text.len()).find(whole).unwrap_or_default();
            self.left_out += cut;
            self.text.drain(..cut);
        }
    }

    fn take(&mut self) -> Option<String> {
        if self.text.is_empty() {
            return None;
        }
        let text = std::mem::take(&mut self.text);
        Some(match std::mem::take(&mut self.left_out) {
            0 => text,
            bytes => format!("[… {bytes} bytes left out …]\n{text}"),
        })
    }
}

async fn tell(waiting: Arc<Waiting>, peer: Peer<RoleServer>, token: ProgressToken) {
    let mut told = 0.0;
    loop {
        waiting.news.notified().await;
        let (text, is_over) = {
            let mut waiting = waiting.lock();
            (waiting.take(), waiting.is_over)
        };
        if let Some(text) = text {
            told += 1.0;
            let progress = ProgressNotificationParam::new(token.clone(), told).with_message(text);
            if peer.notify_progress(progress).await.is_err() {
                return;
            }
        }
        if is_over {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            // The end is told at once.
            () = waiting.news.notified() => waiting.news.notify_one(),
        }
    }
}

fn words(happening: ToolEvent) -> Option<String> {
    match happening {
        ToolEvent::Cell(Event::Stdout { text } | Event::Stderr { text }) => Some(text),
        ToolEvent::Cell(Event::Display { .. }) => {
            Some("[a picture or table was shown]\n".to_owned())
        }
        ToolEvent::Cell(Event::ToolCall { name, .. }) => Some(format!("[calls {name}]\n")),
        ToolEvent::AwaitingApproval { tool } => {
            Some(format!("[{tool} waits for a person's approval]\n"))
        }
        ToolEvent::PlanChanged { markdown, .. } => Some(markdown),
        _ => None,
    }
}

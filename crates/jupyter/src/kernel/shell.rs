//! The shell channel: requests that are done one after the other.

use super::execution::Counts;
use super::history::History;
use super::output::{ExecutionState, MessageSender};
use super::sessions::Sessions;
use super::{KernelAbout, KernelEnd, answers};
use crate::message::{Message, now};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_protocol::{CommKind, CommMessage, Cursor, Detail};
use cellblock_session::Session;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// How long after an error requests still count as sent before it, if their date says so: they were on their way.
const ABORT_WINDOW: Duration = Duration::from_millis(100);
/// The most channels to widgets that are remembered for `comm_info_request`.
const MAX_COMMS: usize = 10_000;

/// The channels that the shell loop reads.
pub(super) struct Requests {
    pub(super) shell: mpsc::Receiver<Message>,
    pub(super) stdin: mpsc::Receiver<Message>,
}

/// Answers the requests of the shell channel.
pub(super) struct ShellLoop {
    pub(super) requests: Requests,
    pub(super) sessions: Sessions,
    pub(super) outlet: MessageSender,
    pub(super) counts: Counts,
    pub(super) history: History,
    pub(super) comms: BTreeMap<String, String>,
    pub(super) about: KernelAbout,
    ended: Arc<watch::Sender<Option<KernelEnd>>>,
    /// Requests that were queued when a cell failed. Cells among them are not run.
    aborted: VecDeque<Message>,
    abort: Option<Abort>,
}

/// A cell failed: cells that were sent before its reply are not run.
struct Abort {
    /// The date of the reply, as headers write it.
    date: String,
    at: Instant,
}

impl ShellLoop {
    pub(super) fn new(
        requests: Requests,
        sessions: Sessions,
        outlet: MessageSender,
        about: KernelAbout,
        ended: Arc<watch::Sender<Option<KernelEnd>>>,
    ) -> Self {
        Self {
            requests,
            sessions,
            outlet,
            about,
            ended,
            counts: Counts::default(),
            history: History::default(),
            comms: BTreeMap::new(),
            aborted: VecDeque::new(),
            abort: None,
        }
    }

    /// Answers requests until the kernel ends, then closes its sessions.
    pub(super) async fn run(mut self) {
        self.outlet
            .status(ExecutionState::Starting, &Map::new())
            .await;
        // The first cell finds a session that is there. An error is told by the first request that needs the session.
        let _ = self.sessions.current().await;
        let mut end = self.ended.subscribe();
        loop {
            let request = tokio::select! {
                biased;
                _ = end.wait_for(Option::is_some) => break,
                request = self.next_request() => request,
            };
            let Some((request, is_aborted)) = request else {
                break;
            };
            // A client that ends the kernel does not wait for the cell that runs.
            tokio::select! {
                biased;
                _ = end.wait_for(Option::is_some) => break,
                () = self.answer(&request, is_aborted) => {}
            }
        }
        self.sessions.close().await;
    }

    async fn next_request(&mut self) -> Option<(Message, bool)> {
        if let Some(request) = self.aborted.pop_front() {
            return Some((request, true));
        }
        let request = self.requests.shell.recv().await?;
        let was_on_its_way = self.abort.as_ref().is_some_and(|abort| {
            abort.at.elapsed() < ABORT_WINDOW && is_before(request.date(), &abort.date)
        });
        if !was_on_its_way {
            self.abort = None;
        }
        Some((request, was_on_its_way))
    }

    /// Takes the cells that wait out of the queue: a cell before them failed. Before its reply is sent, so that no cell of a client that
    /// waits for the reply is among them.
    pub(super) fn abort_queue(&mut self) {
        while let Ok(request) = self.requests.shell.try_recv() {
            self.aborted.push_back(request);
        }
        self.abort = Some(Abort {
            date: now(),
            at: Instant::now(),
        });
    }

    async fn answer(&mut self, request: &Message, is_aborted: bool) {
        self.outlet
            .status(ExecutionState::Busy, &request.header)
            .await;
        match request.kind() {
            "execute_request" if is_aborted => {
                let content =
                    json!({"status": "aborted", "execution_count": self.counts.current()});
                self.outlet.reply("execute_reply", request, content).await;
            }
            "execute_request" => self.execute(request).await,
            "comm_open" => self.deliver_comm(request, CommKind::Open).await,
            "comm_msg" => self.deliver_comm(request, CommKind::Msg).await,
            "comm_close" => self.deliver_comm(request, CommKind::Close).await,
            other => {
                if let Some(kind) = answers::reply_kind(other) {
                    let content = self.answer_question(request).await;
                    self.outlet.reply(&kind, request, content).await;
                }
            }
        }
        self.outlet
            .status(ExecutionState::Idle, &request.header)
            .await;
    }

    /// The contents of the reply to a request that runs no cell.
    async fn answer_question(&mut self, request: &Message) -> Value {
        match request.kind() {
            "kernel_info_request" => answers::kernel_info(&self.about),
            "connect_request" if self.about.ports.is_some() => json!(self.about.ports),
            "history_request" => self.history.answer(request),
            "comm_info_request" => self.comm_info(request.text("target_name")),
            "shutdown_request" => {
                let restart = request.flag("restart", false);
                self.ended.send_replace(Some(KernelEnd { restart }));
                json!({"status": "ok", "restart": restart})
            }
            "complete_request" | "inspect_request" | "is_complete_request" => {
                let answered = match self.sessions.current().await {
                    Ok(session) => ask(&session, request).await,
                    Err(problem) => Err(problem),
                };
                answered.unwrap_or_else(|problem| answers::error("RuntimeError", &problem))
            }
            other => answers::not_offered(other),
        }
    }

    fn comm_info(&self, target: &str) -> Value {
        let comms: Map<String, Value> = self
            .comms
            .iter()
            .filter(|(_, name)| target.is_empty() || *name == target)
            .map(|(id, name)| (id.clone(), json!({"target_name": name})))
            .collect();
        json!({"status": "ok", "comms": comms})
    }

    /// Remembers which channels to widgets are open.
    pub(super) fn note_comm(&mut self, kind: CommKind, id: &str, target: Option<&str>) {
        match kind {
            CommKind::Open if self.comms.len() < MAX_COMMS => {
                self.comms
                    .insert(id.to_owned(), target.unwrap_or_default().to_owned());
            }
            CommKind::Close => {
                self.comms.remove(id);
            }
            _ => {}
        }
    }

    async fn deliver_comm(&mut self, request: &Message, kind: CommKind) {
        let object = |value: Option<&Value>| value.and_then(Value::as_object).cloned();
        let target = request.text("target_name");
        let message = CommMessage {
            kind,
            comm: request.text("comm_id").to_owned(),
            target: (kind == CommKind::Open).then(|| target.to_owned()),
            data: object(request.content.get("data"))
                .unwrap_or_default()
                .into(),
            metadata: object(Some(&request.metadata)).map(Into::into),
            buffers: request
                .buffers
                .iter()
                .map(|buffer| STANDARD.encode(buffer))
                .collect(),
        };
        self.note_comm(kind, &message.comm, message.target.as_deref());
        // A message that cannot be delivered has no reply that could say so.
        if let Ok(cell) = message.to_cell() {
            self.run_for_widget(request, cell).await;
        }
    }
}

/// Whether one date of a header is before another. Only dates in UTC are compared.
fn is_before(date: &str, other: &str) -> bool {
    date.ends_with('Z') && other.ends_with('Z') && date < other
}

async fn ask(session: &Session, request: &Message) -> Result<Value, String> {
    let code = request.text("code");
    let position = request
        .number("cursor_pos")
        .and_then(|position| u64::try_from(position).ok());
    let cursor = match position {
        Some(position) => Cursor::new(code, position),
        None => Cursor::at_end(code),
    };
    let place = cursor.pos;
    match request.kind() {
        "complete_request" => {
            let found = session.complete(cursor).await;
            found.map(|found| answers::completions(found, place))
        }
        "inspect_request" => {
            let detail = match request.number("detail_level") {
                Some(1) => Detail::Source,
                _ => Detail::Summary,
            };
            let help = session.inspect_at(cursor, detail).await;
            help.map(|help| answers::inspection(&help))
        }
        _ => {
            let verdict = session.is_complete(code).await;
            verdict.map(|verdict| answers::completeness(&verdict))
        }
    }
    .map_err(|error| error.to_string())
}

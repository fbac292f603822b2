//! A client of a kernel, in the same process.

use bytes::Bytes;
use cellblock_host::{Host, Session};
use cellblock_jupyter::{
    Advice, Channel, Kernel, KernelAbout, Message, Outgoing, SessionOpener, fresh_id,
    outgoing_queues,
};
use cellblock_protocol::{CellResult, SessionOptions, Shell};
use serde_json::{Map, Value, json};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Opener(pub(crate) Host);

impl SessionOpener for Opener {
    fn open(&self) -> Pin<Box<dyn Future<Output = Result<Session, String>> + Send + '_>> {
        Box::pin(async {
            // Without IPython in the environment, cells are plain Python all the same.
            let options = SessionOptions {
                shell: Shell::Ipython,
                ..SessionOptions::default()
            };
            let opened = self.0.open(options).await;
            opened.map_err(|error| error.to_string())
        })
    }
}

pub(crate) fn about() -> KernelAbout {
    KernelAbout {
        python_version: "3.11.0".to_owned(),
        version: "0.0.0".to_owned(),
        ports: None,
        advice: |_| None,
    }
}

pub(crate) fn host() -> Host {
    Host::builder().build().unwrap()
}

pub(crate) struct Client {
    pub(crate) kernel: Kernel,
    ordered: mpsc::Receiver<Outgoing>,
    control: mpsc::Receiver<Outgoing>,
}

/// What a cell gave: all messages on iopub between `busy` and `idle`, and the reply.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) shown: Vec<(String, Value)>,
    pub(crate) reply: Value,
}

impl Given {
    /// The contents of the shown messages of one type.
    pub(crate) fn of(&self, kind: &str) -> Vec<&Value> {
        let shown = self.shown.iter();
        shown
            .filter(|(found, _)| found == kind)
            .map(|(_, content)| content)
            .collect()
    }

    pub(crate) fn text(&self, stream: &str) -> String {
        let texts = self.of("stream").into_iter();
        texts
            .filter(|content| content["name"] == stream)
            .filter_map(|content| content["text"].as_str())
            .collect()
    }
}

impl Client {
    pub(crate) fn start() -> Self {
        Self::advised(|_| None)
    }

    /// A client of a kernel that gives advice.
    pub(crate) fn advised(advice: fn(&CellResult) -> Option<Advice>) -> Self {
        let (queues, ordered, control) = outgoing_queues();
        let about = KernelAbout { advice, ..about() };
        Self {
            kernel: Kernel::start(Arc::new(Opener(host())), about, queues),
            ordered,
            control,
        }
    }

    pub(crate) fn message(kind: &str, content: Value) -> Message {
        let mut header = Map::new();
        header.insert("msg_id".to_owned(), fresh_id().into());
        header.insert("msg_type".to_owned(), kind.into());
        Message {
            identities: vec![Bytes::from_static(b"client")],
            header,
            parent_header: Map::new(),
            metadata: json!({}),
            content,
            buffers: Vec::new(),
        }
    }

    /// Sends a request and returns its id.
    pub(crate) async fn send(&self, channel: Channel, kind: &str, content: Value) -> Value {
        let message = Self::message(kind, content);
        let id = message.header["msg_id"].clone();
        self.kernel.receive(channel, message).await;
        id
    }

    pub(crate) async fn next(&mut self) -> Outgoing {
        let next = tokio::time::timeout(REPLY_TIMEOUT, self.ordered.recv()).await;
        next.unwrap().unwrap()
    }

    /// What belongs to a request, until the kernel is idle after it.
    pub(crate) async fn collect(&mut self, id: &Value) -> Given {
        let (mut shown, mut reply) = (Vec::new(), Value::Null);
        loop {
            let Outgoing { channel, message } = self.next().await;
            if message.parent_header.get("msg_id") != Some(id) {
                continue;
            }
            let kind = message.kind().to_owned();
            match channel {
                Channel::Shell => reply = message.content,
                _ if kind == "status" && message.content["execution_state"] == "idle" => {
                    return Given { shown, reply };
                }
                _ => shown.push((kind, message.content)),
            }
        }
    }

    pub(crate) async fn ask(&mut self, kind: &str, content: Value) -> Given {
        let id = self.send(Channel::Shell, kind, content).await;
        self.collect(&id).await
    }

    pub(crate) async fn run(&mut self, code: &str) -> Given {
        self.ask("execute_request", json!({"code": code})).await
    }

    pub(crate) async fn control(&mut self, kind: &str, content: Value) -> Value {
        self.send(Channel::Control, kind, content).await;
        let reply = tokio::time::timeout(REPLY_TIMEOUT, self.control.recv()).await;
        reply.unwrap().unwrap().message.content
    }
}

//! A kernel behind the five ZeroMQ sockets of its connection file.

use crate::connection::ConnectionFile;
use crate::kernel::{Kernel, KernelAbout, KernelEnd, Outgoing, SessionOpener, outgoing_queues};
use crate::message::{Channel, MessageFactory};
use crate::received::ReceivedTags;
use crate::wire::Wire;
use bytes::Bytes;
use serde_json::{Map, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use zeromq::{
    RepSocket, RouterRecvHalf, RouterSendHalf, RouterSocket, Socket, SocketRecv, SocketSend,
    XPubSocket, ZmqError, ZmqMessage,
};

/// A client that takes no output for this time holds the cell up no longer: what it does not take is dropped.
const SLOW_READER_LIMIT: Duration = Duration::from_secs(10);
/// How long output waits for a client that was too slow before, until it takes something again.
const SLOW_READER_RETRY: Duration = Duration::from_millis(1);
/// How long the replies to `shutdown_request` have to leave before the sockets are closed.
const SHUTDOWN_REPLY_TIME: Duration = Duration::from_millis(50);
/// How often the kernel looks whether the process that started it is still there.
const PARENT_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Why a kernel could not listen.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A socket could not be opened.
    #[error("the {channel} socket cannot listen on {endpoint}: {problem}")]
    Bind {
        /// The channel of the socket.
        channel: &'static str,
        /// The address.
        endpoint: String,
        /// The reason.
        problem: String,
    },
}

/// Runs a kernel behind the sockets of a connection file, until a client ends it, `interrupts` is closed, or the process that started this
/// one is gone. Each value of `interrupts` interrupts the cell that runs.
pub async fn serve(
    connection: &ConnectionFile,
    opener: Arc<dyn SessionOpener>,
    about: KernelAbout,
    mut interrupts: mpsc::Receiver<()>,
) -> Result<(), ServeError> {
    let wire = Wire::new(&connection.key);
    let mut heartbeat = RepSocket::new();
    bind(
        &mut heartbeat,
        "heartbeat",
        connection,
        connection.ports.hb_port,
    )
    .await?;
    let mut iopub = XPubSocket::new();
    bind(&mut iopub, "iopub", connection, connection.ports.iopub_port).await?;
    let (shell_sender, shell) = router("shell", connection, connection.ports.shell_port).await?;
    let (stdin_sender, stdin) = router("stdin", connection, connection.ports.stdin_port).await?;
    let (mut control_sender, control) =
        router("control", connection, connection.ports.control_port).await?;

    let (queues, ordered, mut control_replies) = outgoing_queues();
    let about = KernelAbout {
        ports: Some(connection.ports),
        ..about
    };
    let kernel = Kernel::start(opener, about, queues);
    let publisher = Publisher {
        iopub,
        wire: wire.clone(),
        factory: MessageFactory::new(),
        dropped_bytes: 0,
    };
    let senders = Senders {
        publisher,
        shell: shell_sender,
        stdin: stdin_sender,
    };
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(echo(heartbeat));
    tasks.spawn(senders.send_all(ordered));
    // One for all channels: a message that is sent again on another one is refused too.
    let received = Arc::new(ReceivedTags::default());
    for (channel, socket) in [
        (Channel::Shell, shell),
        (Channel::Stdin, stdin),
        (Channel::Control, control),
    ] {
        tasks.spawn(read_requests(
            channel,
            socket,
            wire.clone(),
            Arc::clone(&received),
            kernel.clone(),
        ));
    }
    tasks.spawn(async move {
        while let Some(reply) = control_replies.recv().await {
            let _ = control_sender.send(frames(&wire, &reply)).await;
        }
    });
    let end = async {
        loop {
            tokio::select! {
                end = kernel.ended() => return end,
                interrupt = interrupts.recv() => match interrupt {
                    Some(()) => kernel.interrupt(),
                    None => return KernelEnd { restart: false },
                },
                () = parent_gone() => return KernelEnd { restart: false },
            }
        }
    };
    end.await;
    kernel.close().await;
    tokio::time::sleep(SHUTDOWN_REPLY_TIME).await;
    tasks.abort_all();
    Ok(())
}

async fn bind(
    socket: &mut impl Socket,
    channel: &'static str,
    connection: &ConnectionFile,
    port: u16,
) -> Result<(), ServeError> {
    let endpoint = connection.endpoint(port);
    match socket.bind(&endpoint).await {
        Ok(_) => Ok(()),
        Err(error) => Err(ServeError::Bind {
            channel,
            endpoint,
            problem: error.to_string(),
        }),
    }
}

async fn router(
    channel: &'static str,
    connection: &ConnectionFile,
    port: u16,
) -> Result<(RouterSendHalf, RouterRecvHalf), ServeError> {
    let mut socket = RouterSocket::new();
    bind(&mut socket, channel, connection, port).await?;
    Ok(socket.split())
}

/// Returns what comes, so that clients know that the kernel lives.
async fn echo(mut heartbeat: RepSocket) {
    loop {
        match heartbeat.recv().await {
            Ok(message) => {
                let _ = heartbeat.send(message).await;
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn read_requests(
    channel: Channel,
    mut socket: RouterRecvHalf,
    wire: Wire,
    received: Arc<ReceivedTags>,
    kernel: Kernel,
) {
    loop {
        let frames = match socket.recv().await {
            Ok(message) => message.into_vec(),
            Err(ZmqError::NoMessage) => return,
            Err(_) => continue,
        };
        // A message that is malformed or not signed with the key has no sender that could be told.
        match wire.decode_once(frames, &received) {
            Ok(message) => kernel.receive(channel, message).await,
            Err(error) => eprintln!("a message on the {} channel: {error}", channel.name()),
        }
    }
}

/// The sockets that output and replies go out on, in one order.
struct Senders {
    publisher: Publisher,
    shell: RouterSendHalf,
    stdin: RouterSendHalf,
}

impl Senders {
    async fn send_all(mut self, mut messages: mpsc::Receiver<Outgoing>) {
        loop {
            // Subscriptions first: a client that has just come sees what is sent after it came.
            let outgoing = tokio::select! {
                biased;
                subscription = self.publisher.iopub.recv() => {
                    self.publisher.welcome(subscription).await;
                    continue;
                }
                outgoing = messages.recv() => outgoing,
            };
            let Some(outgoing) = outgoing else { return };
            let frames = frames(&self.publisher.wire, &outgoing);
            // A client that went away is not there to be told.
            match outgoing.channel {
                Channel::Iopub => self.publisher.publish(frames).await,
                Channel::Stdin => drop(self.stdin.send(frames).await),
                Channel::Shell | Channel::Control => drop(self.shell.send(frames).await),
            }
        }
    }
}

/// The iopub socket. It waits for slow readers, but not for ever.
struct Publisher {
    iopub: XPubSocket,
    wire: Wire,
    factory: MessageFactory,
    /// How much was dropped since a reader last took something. Not 0 while a reader is stuck.
    dropped_bytes: usize,
}

impl Publisher {
    async fn publish(&mut self, frames: ZmqMessage) {
        let bytes: usize = frames.iter().map(Bytes::len).sum();
        let limit = match self.dropped_bytes {
            0 => SLOW_READER_LIMIT,
            _ => SLOW_READER_RETRY,
        };
        let sent = tokio::time::timeout(limit, self.iopub.send(frames)).await;
        match sent {
            Ok(_) => {
                let dropped = std::mem::take(&mut self.dropped_bytes);
                if dropped > 0 {
                    self.tell_of_loss(dropped).await;
                }
            }
            Err(_) => self.dropped_bytes += bytes,
        }
    }

    async fn tell_of_loss(&mut self, dropped: usize) {
        let text = format!(
            "Cellblock: {dropped} bytes of output were dropped: a client took nothing for {} s\n",
            SLOW_READER_LIMIT.as_secs()
        );
        let content = json!({"name": "stderr", "text": text});
        let message = self.factory.published("stream", &Map::new(), content);
        let channel = Channel::Iopub;
        let frames = frames(&self.wire, &Outgoing { channel, message });
        let _ = tokio::time::timeout(SLOW_READER_RETRY, self.iopub.send(frames)).await;
    }

    /// Greets a client that subscribed, so that it knows that it misses nothing from now on.
    async fn welcome(&mut self, subscription: Result<ZmqMessage, ZmqError>) {
        let topic = match subscription {
            Ok(message) => message.into_vec().pop().unwrap_or_default(),
            Err(_) => {
                // A client that went away, or that speaks no ZeroMQ.
                tokio::time::sleep(Duration::from_millis(1)).await;
                return;
            }
        };
        let Some((1, topic)) = topic.split_first().map(|(kind, topic)| (*kind, topic)) else {
            return;
        };
        let content = json!({"subscription": String::from_utf8_lossy(topic)});
        let mut message = self
            .factory
            .published("iopub_welcome", &Map::new(), content);
        message.identities = vec![Bytes::copy_from_slice(topic)];
        let frames = ZmqMessage::try_from(self.wire.encode(&message));
        if let Ok(frames) = frames {
            self.publish(frames).await;
        }
    }
}

/// The frames of a message. Output begins with its topic, which clients can subscribe to.
fn frames(wire: &Wire, outgoing: &Outgoing) -> ZmqMessage {
    let mut frames = wire.encode(&outgoing.message);
    if outgoing.channel == Channel::Iopub {
        let topic = format!("kernel.{}", outgoing.message.kind());
        frames.insert(0, Bytes::from(topic));
    }
    // Only an empty list is no message.
    ZmqMessage::try_from(frames).unwrap_or_else(|_| Bytes::new().into())
}

/// Waits until the process that started this one is gone. Jupyter says in `JPY_PARENT_PID` that it wants that.
async fn parent_gone() {
    if std::env::var_os("JPY_PARENT_PID").is_none() {
        std::future::pending::<()>().await;
    }
    let parent = rustix::process::getppid();
    loop {
        tokio::time::sleep(PARENT_CHECK_INTERVAL).await;
        if rustix::process::getppid() != parent {
            return;
        }
    }
}

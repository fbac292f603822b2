//! The kernel: takes requests of clients, runs cells in a session, and sends replies and output.

mod answers;
mod cell_text;
mod commands;
mod control;
mod endings;
mod execution;
mod history;
mod output;
mod sessions;
mod shell;

use crate::connection::Ports;
use crate::message::{Channel, Message, MessageFactory};
use cellblock_protocol::CellResult;
pub use output::{Outgoing, OutgoingQueues, outgoing_queues};
use sessions::CurrentSession;
pub use sessions::SessionOpener;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// The requests that wait on the shell channel. A client that sends more waits.
const MAX_QUEUED_REQUESTS: usize = 4096;

/// What a kernel tells about itself.
#[derive(Clone, Debug)]
pub struct KernelAbout {
    /// The version of Python in its sessions, such as `3.12.4`.
    pub python_version: String,
    /// The version of Cellblock.
    pub version: String,
    /// The ports of its sockets; none where messages travel over a WebSocket.
    pub ports: Option<Ports>,
    /// What helps a cell that ran into a limit or a wall.
    pub advice: fn(&CellResult) -> Option<Advice>,
}

/// What helps where a kernel runs: a flag or a command, by its name there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The line that says it.
    pub text: String,
    /// Whether the line takes the place of the session's own hint.
    pub replaces_hint: bool,
}

/// A kernel that runs. A handle: clones are the same kernel, which ends when the last one is dropped, or when a client asks for it.
#[derive(Clone, Debug)]
pub struct Kernel {
    shell: mpsc::Sender<Message>,
    stdin: mpsc::Sender<Message>,
    control: mpsc::Sender<Message>,
    current: CurrentSession,
    end: watch::Receiver<Option<KernelEnd>>,
}

/// How a client asked a kernel to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelEnd {
    /// Whether the client starts a new kernel in its place.
    pub restart: bool,
}

impl Kernel {
    /// Starts a kernel whose messages go to `outgoing`. It opens its session at once, in the background.
    pub fn start(
        opener: Arc<dyn SessionOpener>,
        about: KernelAbout,
        outgoing: OutgoingQueues,
    ) -> Kernel {
        let (shell, shell_requests) = mpsc::channel(MAX_QUEUED_REQUESTS);
        let (stdin, input_replies) = mpsc::channel(16);
        let (control, control_requests) = mpsc::channel(MAX_QUEUED_REQUESTS);
        let (ended, end) = watch::channel(None);
        let current = CurrentSession::default();
        let outlet = output::MessageSender::new(MessageFactory::new(), outgoing);
        let ended = Arc::new(ended);
        let shell_loop = shell::ShellLoop::new(
            shell::Requests {
                shell: shell_requests,
                stdin: input_replies,
            },
            sessions::Sessions::new(opener, current.clone()),
            outlet.clone(),
            about.clone(),
            Arc::clone(&ended),
        );
        tokio::spawn(shell_loop.run());
        let control_loop = control::ControlLoop {
            outlet,
            about,
            current: current.clone(),
            ended,
        };
        tokio::spawn(control_loop.run(control_requests));
        Kernel {
            shell,
            stdin,
            control,
            current,
            end,
        }
    }

    /// Hands a message of a client to the kernel. Waits while too many requests are queued.
    pub async fn receive(&self, channel: Channel, message: Message) {
        // A kernel that has ended takes nothing any more: its clients see that themselves.
        let _ = match channel {
            Channel::Shell => self.shell.send(message).await,
            Channel::Stdin => self.stdin.send(message).await,
            Channel::Control => self.control.send(message).await,
            Channel::Iopub => Ok(()),
        };
    }

    /// Interrupts the cell that runs, if one does.
    pub fn interrupt(&self) {
        self.current.interrupt();
    }

    /// Waits until a client has asked the kernel to end.
    pub async fn ended(&self) -> KernelEnd {
        let mut end = self.end.clone();
        match end.wait_for(Option::is_some).await {
            Ok(end) => (*end).unwrap_or(KernelEnd { restart: false }),
            Err(_) => KernelEnd { restart: false },
        }
    }

    /// Closes the sessions of the kernel and waits until nothing of them is left.
    pub async fn close(&self) {
        self.current.close().await;
    }
}

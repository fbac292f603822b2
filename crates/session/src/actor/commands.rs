//! The commands of a session's handles, and their queue.
//!
//! The kind of a command says when it can be carried out. `dispatch.rs` decides by the kind alone, so a new command is a variant of
//! one of the kinds and an arm where that kind is carried out.

use crate::Error;
use crate::processes::{SpawnEnvironment, SpawnerEnds};
use crate::session::Session;
use cellblock_protocol::guest::{Reply, ToHead};
use cellblock_protocol::{Cell, CellResult, CheckpointList, Event, Stream, Undone};
use cellblock_sandbox::SessionProcesses;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread::yield_now;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::unconstrained;

/// Something that a handle asks of its session.
pub(crate) enum Command {
    /// Needs the head for itself. Refused while a cell runs; waits while cells run again after a crash.
    Exclusive(ExclusiveCommand),
    /// Asks the head something. Whether a running cell lets it through depends on the question's [`Effect`].
    Question(Question),
    /// Is for the code of the running cell. Dropped while no cell runs.
    ToCell(CellCommand),
    /// Is answered by the host alone, at once, whether a cell runs or not.
    Immediate(ImmediateCommand),
    /// Ends the session, and the running cell with it.
    Close { reply: oneshot::Sender<()> },
}

/// The receiver of a command's outcome.
pub(crate) type ReplyTo<T> = oneshot::Sender<Result<T, Error>>;

/// A command that needs the head for itself.
pub(crate) enum ExclusiveCommand {
    Run {
        cell: Cell,
        /// The number that the cell shall have, where it is not just the next one.
        number: Option<u64>,
        events: Option<mpsc::Sender<Event>>,
        reply: ReplyTo<CellResult>,
    },
    Undo {
        count: usize,
        reply: ReplyTo<Undone>,
    },
    Fork {
        reply: ReplyTo<Session>,
    },
    Pause {
        reply: ReplyTo<()>,
    },
    Resume {
        reply: ReplyTo<()>,
    },
}

/// A question to the head.
pub(crate) struct Question {
    /// Makes the frame from the question's number.
    pub(crate) operation: Box<dyn FnOnce(u64) -> ToHead + Send + Sync>,
    pub(crate) effect: Effect,
    pub(crate) limit: Duration,
    pub(crate) reply: ReplyTo<Reply>,
}

/// The effect of a question on the session's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Reads the state.
    ReadOnly,
    /// Reads the state, and can be asked while code waits for the answer to a call.
    ReadOnlyDuringCall,
    /// Changes the state.
    Changes,
}

/// A command for the code of the running cell.
pub(crate) enum CellCommand {
    /// The answer to a tool call or to a request for input.
    Answer(ToHead),
    Interrupt,
}

/// A command that the host answers alone.
pub(crate) enum ImmediateCommand {
    ReadOutput {
        cell: u64,
        stream: Stream,
        offset: u64,
        length: u64,
        reply: ReplyTo<String>,
    },
    Checkpoints {
        reply: oneshot::Sender<CheckpointList>,
    },
    /// Asks init for the spawner, which starts processes beside the head.
    StartSpawner {
        ends: SpawnerEnds,
        reply: ReplyTo<SpawnEnvironment>,
    },
    Processes {
        reply: oneshot::Sender<Option<SessionProcesses>>,
    },
}

impl Command {
    /// Refuses a command that must not wait for the running cell. The caller gets the error.
    pub(crate) fn refuse(self, error: Error) {
        match self {
            Command::Exclusive(ExclusiveCommand::Run { reply, .. }) => drop(reply.send(Err(error))),
            Command::Exclusive(ExclusiveCommand::Undo { reply, .. }) => {
                drop(reply.send(Err(error)));
            }
            Command::Exclusive(ExclusiveCommand::Fork { reply }) => drop(reply.send(Err(error))),
            Command::Exclusive(
                ExclusiveCommand::Pause { reply } | ExclusiveCommand::Resume { reply },
            ) => drop(reply.send(Err(error))),
            Command::Question(Question { reply, .. }) => drop(reply.send(Err(error))),
            // These are never refused.
            Command::ToCell(_) | Command::Immediate(_) | Command::Close { .. } => {}
        }
    }
}

/// The commands of all handles of a session, in the order in which they were given.
pub(crate) struct CommandQueue {
    receiver: mpsc::UnboundedReceiver<Command>,
    /// Commands that came while cells ran again after a crash. They wait until these have.
    postponed: VecDeque<Command>,
    /// The callers that wait for the session to be closed.
    closing: Vec<oneshot::Sender<()>>,
}

impl CommandQueue {
    pub(crate) fn new(receiver: mpsc::UnboundedReceiver<Command>) -> CommandQueue {
        CommandQueue {
            receiver,
            postponed: VecDeque::new(),
            closing: Vec::new(),
        }
    }

    /// The next command; `None` when the last handle was dropped. Commands that were postponed stay where they are.
    pub(crate) async fn receive(&mut self) -> Option<Command> {
        self.receiver.recv().await
    }

    /// Lets a command wait until the session runs no cell.
    pub(crate) fn postpone(&mut self, command: Command) {
        self.postponed.push_back(command);
    }

    /// The oldest command that was postponed.
    pub(crate) fn take_postponed(&mut self) -> Option<Command> {
        self.postponed.pop_front()
    }

    /// The session is to be closed; `reply` is told when nothing of it is left.
    pub(crate) fn close_for(&mut self, reply: oneshot::Sender<()>) {
        self.closing.push(reply);
    }

    /// Whether the session is to end: a handle closed it, or the last handle was dropped.
    pub(crate) fn is_closing(&self) -> bool {
        !self.closing.is_empty() || self.receiver.is_closed()
    }

    /// Takes no more commands, and drops those that were given: their callers see their replies dropped. Only callers that close the session
    /// go on waiting, until nothing of it is left.
    ///
    /// A caller may be in the middle of giving a command, so this waits until none is. A command that reached the channel after its receiver was
    /// dropped would live as long as the channel does, which the caller's own handle keeps: the caller would wait for ever.
    pub(crate) async fn refuse_all(&mut self) {
        self.postponed.clear();
        self.receiver.close();
        while let Some(command) = self.receiver.recv().await {
            if let Command::Close { reply } = command {
                self.close_for(reply);
            }
        }
    }

    /// The callers that wait for the session to be closed.
    pub(crate) fn take_closing(&mut self) -> Vec<oneshot::Sender<()>> {
        std::mem::take(&mut self.closing)
    }
}

impl Drop for CommandQueue {
    /// The same as [`CommandQueue::refuse_all`] for a task that goes without calling it: it panicked, or its runtime is shut down. A caller is in
    /// the middle for less than a microsecond, unless its thread loses the processor there.
    fn drop(&mut self) {
        self.receiver.close();
        let mut context = Context::from_waker(Waker::noop());
        loop {
            let command = poll_fn(|context| self.receiver.poll_recv(context));
            // Or the runtime would say at some time that this task has done enough, until it waits.
            match pin!(unconstrained(command)).poll(&mut context) {
                Poll::Ready(Some(command)) => drop(command),
                Poll::Ready(None) => return,
                Poll::Pending => yield_now(),
            }
        }
    }
}

#[cfg(test)]
#[path = "commands_tests.rs"]
mod tests;

//! The head: the live Python of a session, and what the host speaks with it through.

use crate::events::SessionEvents;
use crate::wire::channel::Channel;
use crate::wire::pipes::Pipes;
use crate::{Error, Refusal};
use cellblock_protocol::guest::{FromHead, Reply, ToHead};
use cellblock_sandbox::HeadExit;
use std::collections::HashMap;
use std::io;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

/// The host's side of the head.
pub(crate) struct Head {
    pub(crate) channel: Channel,
    /// Standard output and error, of all heads that follow one another.
    pub(crate) pipes: Pipes,
    /// How the head ended, when init has told it and the session has not dealt with it yet.
    pub(crate) ended: Option<HeadExit>,
    /// Questions that were asked while a cell ran.
    pub(crate) pending_queries: PendingQueries,
    /// The CPU time that the head's earlier cells took.
    pub(crate) spent_cpu: Duration,
    last_question: u64,
}

impl Head {
    pub(crate) fn new(channel: Channel, pipes: Pipes) -> Head {
        Head {
            channel,
            pipes,
            ended: None,
            pending_queries: PendingQueries::default(),
            spent_cpu: Duration::ZERO,
            last_question: 0,
        }
    }

    /// Notes the CPU time of a cell. It is the guest's word, so no sum of it may overflow.
    pub(crate) fn add_cpu(&mut self, time: Duration) {
        self.spent_cpu = self.spent_cpu.saturating_add(time);
    }

    /// The number of the next question. No number is used twice in a session, so a late answer is never taken for another.
    pub(crate) fn next_question(&mut self) -> u64 {
        self.last_question += 1;
        self.last_question
    }

    /// Asks a question and waits for the answer. Output goes to the session's log meanwhile.
    pub(crate) async fn exchange(
        &mut self,
        logs: &SessionEvents,
        operation: ToHead,
        question: u64,
    ) -> io::Result<Reply> {
        self.channel.send(&operation).await?;
        self.answer_to(logs, question).await
    }

    /// Waits for the answer to a question that was sent.
    pub(crate) async fn answer_to(
        &mut self,
        logs: &SessionEvents,
        question: u64,
    ) -> io::Result<Reply> {
        loop {
            tokio::select! {
                frame = self.channel.receive() => match frame? {
                    FromHead::Reply(reply) if reply.seq == question => return Ok(reply),
                    // From a thread that outlived its cell, or a lie.
                    stray => self.refuse_stray(logs, stray).await,
                },
                // A head that prints while it answers must not fill its pipe and stop.
                read = self.pipes.read() => {
                    let (_, bytes) = read?;
                    logs.log(String::from_utf8_lossy(bytes).into_owned());
                }
            }
        }
    }

    /// Answers a frame that came while no cell runs: calls are refused, for no reader of events is there to answer them.
    pub(crate) async fn refuse_stray(&mut self, logs: &SessionEvents, frame: FromHead) {
        let refusal =
            "no cell is running: a call from a thread that outlived its cell is not answered"
                .to_owned();
        let answer = match frame {
            FromHead::Log { text } => {
                logs.log(text);
                return;
            }
            // To a question that was asked while a cell ran.
            FromHead::Reply(reply) => return self.pending_queries.answer(reply),
            FromHead::ToolCall { call, .. } | FromHead::OutputRequest { call, .. } => {
                ToHead::ToolResult {
                    call,
                    outcome: Err(refusal),
                }
            }
            FromHead::InputRequest { call, .. } => ToHead::Input {
                call,
                outcome: Err(refusal),
            },
            _ => return,
        };
        let _ = timeout(Duration::from_secs(1), self.channel.send(&answer)).await;
    }
}

/// Questions to a head that runs a cell, by their number. The head answers them while its code waits for a call, or from a thread.
#[derive(Debug, Default)]
pub(crate) struct PendingQueries {
    waiting: HashMap<u64, (QuerySender, Instant)>,
}

type QuerySender = oneshot::Sender<Result<Reply, Error>>;

impl PendingQueries {
    pub(crate) fn expect(&mut self, question: u64, asker: QuerySender, limit: Duration) {
        self.waiting
            .insert(question, (asker, Instant::now() + limit));
    }

    /// Gives the head's answer to the caller that asked, if there is one.
    pub(crate) fn answer(&mut self, reply: Reply) {
        if let Some((asker, _)) = self.waiting.remove(&reply.seq) {
            let _ = asker.send(Ok(reply));
        }
    }

    /// Refuses questions whose time is over: no question waits for ever.
    pub(crate) fn expire(&mut self) {
        let now = Instant::now();
        for (_, (asker, _)) in self.waiting.extract_if(|_, (_, deadline)| *deadline <= now) {
            let _ = asker.send(Err(Refusal::NoTimeToAnswer.into()));
        }
    }

    /// Refuses all questions: the head is gone, and with it whatever it would have said.
    pub(crate) fn give_up(&mut self) {
        for (_, (asker, _)) in self.waiting.drain() {
            let _ = asker.send(Err(Refusal::HeadEndedByCell.into()));
        }
    }
}

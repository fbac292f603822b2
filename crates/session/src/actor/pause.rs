//! A session that stands still: none of its processes runs, and it takes no processor time.

use crate::actor::commands::{Command, ExclusiveCommand, ReplyTo};
use crate::actor::{Actor, AfterCell};
use crate::{Error, Refusal};

impl Actor {
    /// Stops all processes and waits until the session is resumed or is to end. Between cells only: the clock of a cell would go on.
    ///
    /// The time does not count as idle. While the session is paused, files can be worked with and output can be read; everything that
    /// needs the head is refused.
    pub(crate) async fn pause(&mut self, reply: ReplyTo<()>) -> AfterCell {
        let Some(processes) = self.live.files.disk.processes().find() else {
            let _ = reply.send(Err(Refusal::ProcessesNotFound.into()));
            return AfterCell::GoesOn;
        };
        let stopping = tokio::task::spawn_blocking(move || processes.pause_all()).await;
        let stopped = stopping.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        let paused = match stopped {
            Ok(paused) => paused,
            Err(error) => {
                let _ = reply.send(Err(Error::system("pausing the session")(error)));
                return AfterCell::GoesOn;
            }
        };
        let _ = reply.send(Ok(()));
        loop {
            match self.commands.receive().await {
                Some(Command::Exclusive(ExclusiveCommand::Resume { reply })) => {
                    paused.resume();
                    let _ = reply.send(Ok(()));
                    return AfterCell::GoesOn;
                }
                Some(Command::Exclusive(ExclusiveCommand::Pause { reply })) => {
                    let _ = reply.send(Ok(()));
                }
                Some(Command::Immediate(command)) => self.answer_at_once(command).await,
                Some(Command::ToCell(_)) => {}
                Some(Command::Close { reply }) => {
                    // Init must run to end the others.
                    paused.resume();
                    self.commands.close_for(reply);
                    return AfterCell::Over("it was closed".to_owned());
                }
                Some(command @ (Command::Exclusive(_) | Command::Question(_))) => {
                    let session = self.shared.id.clone();
                    command.refuse(Error::Paused { session });
                }
                None => {
                    paused.resume();
                    return AfterCell::Over("its last handle was dropped".to_owned());
                }
            }
        }
    }
}

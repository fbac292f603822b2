//! A run with a person at the keys: Ctrl-C interrupts the cell, twice ends the run.

use crate::commands::live::Signals;
use crate::terminal::Console;
use cellblock::agent::{AgentError, CancellationToken, Conversation, Observer, Outcome};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Two presses within this time end the run.
const TWICE: Duration = Duration::from_secs(3);

/// SIGTERM, which ends the run at once.
const TERMINATE: i32 = 15;

/// What a conversation is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Errand<'a> {
    /// Answer this.
    Ask(&'a str),
    /// Go on where it was cut off.
    GoOn,
}

/// Does it, and listens to signals meanwhile.
pub(crate) async fn attended(
    conversation: &mut Conversation,
    errand: Errand<'_>,
    observer: Observer,
    signals: &mut Signals,
    console: &Console,
) -> Result<Outcome, AgentError> {
    let token = CancellationToken::new();
    let room = Arc::clone(conversation.executor());
    let token_of_run = token.clone();
    let asking = async {
        match errand {
            Errand::Ask(question) => conversation.ask(question, observer, token_of_run).await,
            Errand::GoOn => conversation.resume(observer, token_of_run).await,
        }
    };
    tokio::pin!(asking);
    let mut pressed: Option<Instant> = None;
    loop {
        tokio::select! {
            outcome = &mut asking => return outcome,
            signal = signals.next() => {
                let is_second = pressed.is_some_and(|at| at.elapsed() < TWICE);
                if is_second || signal == TERMINATE {
                    token.cancel();
                } else {
                    pressed = Some(Instant::now());
                    room.interrupt().await;
                    console.hint("the cell was interrupted; press Ctrl-C again to end the run");
                }
            }
        }
    }
}

//! The words for what a crash costs: before it, and after.

use super::{Console, Style, milliseconds, plural};
use cellblock::{CheckpointState, CheckpointStatus, Replay, State, StateOutcome};

/// What a crash in the next cell would cost.
pub(crate) fn next_crash(net: &CheckpointState, replay: Replay) -> String {
    let reason = net.reason.as_deref().unwrap_or_default();
    let cells = plural(net.behind, "cell");
    match (net.status, replay) {
        (CheckpointStatus::Armed, _) => {
            "the next cell is safe: a crash in it loses nothing".to_owned()
        }
        (CheckpointStatus::Behind, _) if net.behind == 0 => {
            format!("a crash in the next cell would not bring everything back: {reason}")
        }
        (CheckpointStatus::Behind, Replay::Off) => {
            format!("a crash in the next cell would lose the last {cells} too: {reason}")
        }
        (CheckpointStatus::Behind, Replay::Within(_)) => format!(
            "there is no checkpoint of the last {cells}, which would have to run again after a crash: {reason}"
        ),
        (CheckpointStatus::Unavailable, _) => {
            format!("a crash in the next cell would end the session: {reason}")
        }
    }
}

/// The safety net that a person was last told of. Armed, until told otherwise.
#[derive(Debug, Default)]
pub(crate) struct ToldNet(Option<(CheckpointStatus, Option<String>)>);

impl ToldNet {
    /// Whether a person has to be told of this safety net: it is not armed, and not for the reason that was told last.
    pub(crate) fn is_news(&mut self, net: &CheckpointState) -> bool {
        let now = match net.status {
            CheckpointStatus::Armed => None,
            status => Some((status, net.reason.clone())),
        };
        let is_new = now != self.0;
        self.0 = now;
        is_new && self.0.is_some()
    }
}

/// Tells what a restore brought back and what not. Nothing, where the cell's effects were kept or the session is over.
pub(crate) fn print_restored(state: &State, console: &Console) {
    if state.outcome != StateOutcome::Restored {
        return;
    }
    let cells: Vec<String> = state.replayed.iter().map(u64::to_string).collect();
    let time = milliseconds(state.replay_ms.unwrap_or_default() as f64);
    let again = match &cells[..] {
        [] => None,
        [cell] => Some(format!("cell {cell} was run again ({time})")),
        cells => Some(format!(
            "cells {} were run again ({time})",
            cells.join(", ")
        )),
    };
    let line = match (again, state.has_variables_of_before()) {
        (None, true) => "the variables are as they were before the cell".to_owned(),
        (Some(again), true) => format!("the variables are as they were before the cell: {again}"),
        (None, false) => "the session went back to an older checkpoint".to_owned(),
        (Some(again), false) => {
            format!("the session went back to an older checkpoint, and {again}")
        }
    };
    console.say(&console.on_err(Style::Dim, &line));
    let warn = |label, texts: &[String]| {
        for text in texts {
            console.note(&console.on_err(Style::Warning, label), text);
        }
    };
    warn("differs:", &state.differed);
    warn("not restored:", &state.not_restored);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_safety_net_is_told_once_for_each_reason() {
        let mut told = ToldNet::default();
        let behind = CheckpointState::behind(1, "a thread (tqdm)");
        let further = CheckpointState::behind(2, "a thread (tqdm)");
        let other = CheckpointState::behind(2, "a socket is listening");
        let nets = [
            &CheckpointState::armed(),
            &behind,
            &further,
            &other,
            &CheckpointState::armed(),
            &behind,
        ];
        let news = nets.map(|net| told.is_news(net));
        assert_eq!(news, [false, true, false, true, false, true]);
    }
}

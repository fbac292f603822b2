//! Taking cells back.

use crate::actor::Actor;
use crate::checkpoint::recovery::Recovered;
use crate::files::tracker::Changes;
use crate::{Error, NotFound};
use cellblock_protocol::guest::{Reply, ToHead};
use cellblock_protocol::{Undone, Variable, VariableChange, VariableChanges};
use std::collections::BTreeMap;
use std::time::Duration;

const LIST_LIMIT: Duration = Duration::from_secs(20);

impl Actor {
    /// Takes back the last `count` cells that were kept, and says what that changed.
    pub(crate) async fn undo(&mut self, count: usize) -> Result<Undone, Error> {
        if count == 0 {
            return Err(NotFound::NoCellToUndo.into());
        }
        let before = self.variables().await?;
        self.live.note_outside_changes().await;
        let Recovered {
            cell,
            files,
            not_restored,
        } = self.restore_earlier(count).await?;
        let after = self.variables().await?;
        Ok(Undone {
            cell,
            variables: differences(&before, &after),
            files,
            not_restored,
        })
    }

    /// Goes back `count` kept cells.
    async fn restore_earlier(&mut self, count: usize) -> Result<Recovered, Error> {
        self.live.arm_in_haste(false).await;
        let reachable = || self.live.checkpoints.oldest();
        let session = self.shared.id.clone();
        let session_is_over = || Error::Ended {
            session: session.clone(),
            reason: "no checkpoint could be woken".to_owned(),
        };
        let target = self.live.checkpoints.before(count);
        let there = target.is_some_and(|target| self.live.checkpoints.can_reach(target));
        let Some(target) = target.filter(|_| there) else {
            let obstacle = self.live.checkpoints.obstacle.clone();
            let cause = match (target, reachable(), obstacle) {
                (None, ..) => NotFound::TooFewCells {
                    kept: self.live.checkpoints.kept.len(),
                    is_fork: self.live.placement.lineage.is_forked(),
                },
                (Some(cell), Some(oldest), Some(reason)) if oldest <= cell => {
                    NotFound::CheckpointNotMade { cell, reason }
                }
                (Some(cell), Some(oldest), None) if oldest <= cell => {
                    NotFound::CheckpointEnded { cell }
                }
                (_, Some(oldest), _) => NotFound::CheckpointTooOld { oldest },
                (_, None, obstacle) => NotFound::NoCheckpoint {
                    reason: obstacle.unwrap_or_default(),
                },
            };
            return Err(cause.into());
        };
        let mut standbys = self.live.checkpoints.standbys.iter().rev();
        let next = standbys.find(|standby| standby.is_after(target));
        let next = next.map(|standby| standby.pid);
        if !self.live.knows_held_files() {
            let look = self.live.files.disk.look_for_held_files();
            self.live.note_held_files(look).await;
        }
        self.live.end_head_for(next).await;
        // What was left running has written until now.
        self.live.note_outside_changes().await;
        // News of a standby that died may have come only now. Then the newest goes on, and nothing was taken back.
        if !self.live.checkpoints.can_reach(target) {
            self.recover(Changes::default())
                .await
                .ok_or_else(session_is_over)?;
            self.live.checkpoints.begin_steps();
            // The newest may be gone as well.
            self.announce_restored();
            return Err(NotFound::CheckpointEnded { cell: target }.into());
        }
        let standbys = &mut self.live.checkpoints.standbys;
        let reaching = standbys
            .iter()
            .rposition(|standby| standby.is_after(target));
        let too_new = standbys.split_off(reaching.map_or(0, |index| index + 1));
        self.live.checkpoints.kept.retain(|kept| *kept <= target);
        // They go when there is time: to take them apart would keep the processor from who is awaited.
        self.live.checkpoints.taken_back.extend(too_new);
        let recovered = self.recover(Changes::default()).await;
        let mut recovered = recovered.ok_or_else(session_is_over)?;
        self.live.checkpoints.begin_steps();
        if recovered.cell < target {
            recovered.not_restored.push(format!(
                "the effects of the cells after {}: no later checkpoint was there to be woken",
                recovered.cell
            ));
        }
        let stays = self.live.checkpoints.take_back_tools();
        recovered.not_restored.extend(stays);
        Ok(recovered)
    }

    async fn variables(&mut self) -> Result<BTreeMap<String, Variable>, Error> {
        let (reply, _) = self
            .ask(Box::new(|seq| ToHead::Vars { seq }), LIST_LIMIT)
            .await;
        let variables = Reply::variables(reply?)?;
        Ok(variables
            .into_iter()
            .map(|variable| (variable.name.clone(), variable))
            .collect())
    }
}

fn differences(
    before: &BTreeMap<String, Variable>,
    after: &BTreeMap<String, Variable>,
) -> VariableChanges {
    let change = |variable: &Variable| VariableChange {
        name: variable.name.clone(),
        type_: variable.type_.clone(),
        summary: variable.summary.clone(),
    };
    let differs = |variable: &&Variable| {
        before
            .get(&variable.name)
            .is_some_and(|old| old != *variable)
    };
    VariableChanges {
        added: after
            .values()
            .filter(|variable| !before.contains_key(&variable.name))
            .map(change)
            .collect(),
        changed: after.values().filter(differs).map(change).collect(),
        removed: before
            .values()
            .filter(|variable| !after.contains_key(&variable.name))
            .map(change)
            .collect(),
    }
}

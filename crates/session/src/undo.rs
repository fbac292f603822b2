//! Taking cells back.

use crate::Error;
use crate::actor::Actor;
use crate::checkpoints::Recovered;
use cellblock_protocol::guest::{Reply, ToHead};
use cellblock_protocol::{Undone, Variable, VariableChange, VariableChanges};
use std::collections::BTreeMap;
use std::time::Duration;

const LIST_LIMIT: Duration = Duration::from_secs(20);

impl Actor {
    /// Takes back the last `count` cells that were kept, and says what that changed.
    pub(crate) async fn undo(&mut self, count: usize) -> Result<Undone, Error> {
        if count == 0 {
            return Err(Error::NotFound(
                "`undo` takes back at least one cell".to_owned(),
            ));
        }
        let before = self.variables().await?;
        self.note_outside_changes().await;
        let Recovered {
            cell,
            files,
            not_restored,
        } = self.go_back(count).await?;
        let after = self.variables().await?;
        Ok(Undone {
            cell,
            variables: differences(&before, &after),
            files,
            not_restored,
        })
    }

    async fn variables(&mut self) -> Result<BTreeMap<String, Variable>, Error> {
        let (reply, _) = self
            .ask(Box::new(|seq| ToHead::Vars { seq }), LIST_LIMIT)
            .await;
        let variables =
            Reply::variables(reply?).map_err(|error| Error::Refused(error.to_string()))?;
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

//! A call before a person.

use super::Workbench;
use super::checking::Checked;
use crate::registry::Entry;
use crate::{Failure, Happening, Permission, Question, Watcher};
use serde_json::Value;

impl Workbench {
    /// Asks where the policy says so. What a person edited is checked like what a model wrote.
    pub(super) async fn approve(
        &self,
        entry: &Entry,
        mut checked: Checked,
        watcher: Option<&Watcher>,
        notes: &mut Vec<String>,
    ) -> Result<Checked, Failure> {
        if self
            .inner
            .approval
            .allows(&entry.definition.name, entry.definition.effects)
        {
            return Ok(checked);
        }
        let question = Question {
            tool: entry.definition.name.clone(),
            purpose: checked.purpose.clone(),
            arguments: checked.arguments.clone(),
            effects: entry.definition.effects,
            caller: checked.caller,
        };
        let told = self.inner.approval.would_ask(&question);
        if let Some(watcher) = watcher.filter(|_| told) {
            watcher(Happening::Waiting {
                tool: question.tool.clone(),
            });
        }
        match self.inner.approval.permit(question).await? {
            Permission::Granted => Ok(checked),
            Permission::Edited(arguments) => {
                let arguments = entry.arguments.arguments(arguments);
                checked.arguments = arguments.map_err(|problems| Failure::Invalid {
                    tool: entry.definition.name.clone(),
                    problems: format!("{problems} (in what the user edited)"),
                })?;
                notes.push(note(entry, &checked));
                Ok(checked)
            }
        }
    }
}

fn note(entry: &Entry, checked: &Checked) -> String {
    let tool = &entry.definition.name;
    let code = match entry.definition.effects {
        crate::Effects::Code { argument } => {
            checked.arguments.get(argument).and_then(Value::as_str)
        }
        _ => None,
    };
    match code {
        Some(code) => {
            format!("Note: the user edited the code before it ran. This ran instead:\n{code}")
        }
        None => {
            let arguments = Value::Object(checked.arguments.clone());
            format!(
                "Note: the user edited this call of {tool} before it ran. It ran with: {arguments}"
            )
        }
    }
}

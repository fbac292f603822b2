//! What a person orders with a line that begins with `/`.

use super::{Chat, make_agent};
use crate::failure::Usage;
use crate::terminal::plural;
use cellblock::agent::Outcome;
use std::fmt::Write as _;
use std::path::PathBuf;

/// An order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Order {
    Undo(usize),
    Fork,
    Switch(usize),
    Plan,
    Vars,
    Files,
    /// Another one, or which one it is.
    Model(Option<String>),
    Save(PathBuf),
    Help,
    Quit,
}

/// A question with what came of it.
pub(super) struct Said {
    pub(super) question: String,
    pub(super) outcome: Outcome,
}

const HELP: &str =
    "/undo [N], /fork, /switch N, /plan, /vars, /files, /model [NAME], /save FILE, /help, /quit";

/// The words that orders begin with.
pub(super) const NAMES: [&str; 10] = [
    "undo", "fork", "switch", "plan", "vars", "files", "model", "save", "help", "quit",
];

impl Order {
    /// The order of a line, where it is one; what is wrong with it.
    pub(super) fn read(line: &str) -> Option<Result<Order, String>> {
        let line = line.strip_prefix('/')?;
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        let number = |missing: Option<usize>| match (rest, missing) {
            ("", Some(number)) => Ok(number),
            (text, _) => text.parse().map_err(|_| format!("/{word} needs a number")),
        };
        let needed = |what: &str| match rest {
            "" => Err(format!("/{word} needs {what}")),
            text => Ok(text.to_owned()),
        };
        Some(match word {
            "undo" => number(Some(1)).map(Order::Undo),
            "fork" => Ok(Order::Fork),
            "switch" => number(None).map(Order::Switch),
            "plan" => Ok(Order::Plan),
            "vars" => Ok(Order::Vars),
            "files" => Ok(Order::Files),
            "model" => Ok(Order::Model((!rest.is_empty()).then(|| rest.to_owned()))),
            "save" => needed("the name of a file").map(|name| Order::Save(name.into())),
            "help" => Ok(Order::Help),
            "quit" | "exit" => Ok(Order::Quit),
            other => Err(format!("there is no order /{other}; the orders are {HELP}")),
        })
    }
}

impl Chat<'_> {
    /// Does what was ordered.
    pub(super) async fn obey(&mut self, order: Order) -> anyhow::Result<()> {
        let Some(conversation) = self.branches.get_mut(self.current) else {
            return Ok(());
        };
        let room = conversation.executor().clone();
        let unable = |error: cellblock::tools::ToolError| Usage::plain(error.to_string());
        let text = match order {
            Order::Undo(count) => {
                let undone = room.undo(count).await.map_err(unable)?;
                let cells = plural(count as u64, "cell");
                conversation.note(&format!(
                    "The user took back the last {cells}: variables and files are as they were before."
                ));
                match undone.cell {
                    0 => "the session is as at its beginning".to_owned(),
                    cell => format!("the session is as after cell {cell}"),
                }
            }
            Order::Fork => {
                let fork = conversation.fork().await.map_err(unable)?;
                self.branches.push(fork);
                self.current = self.branches.len() - 1;
                format!(
                    "this is conversation {}, a copy; /switch goes back",
                    self.branches.len()
                )
            }
            Order::Switch(number) => match number
                .checked_sub(1)
                .filter(|index| *index < self.branches.len())
            {
                Some(index) => {
                    self.current = index;
                    format!("this is conversation {number}")
                }
                None => format!("there are conversations 1 to {}", self.branches.len()),
            },
            Order::Plan => room.plan().unwrap_or_else(|| "there is no plan".to_owned()),
            Order::Vars => {
                let variables = room.variables().await;
                let lines: Vec<String> = variables
                    .iter()
                    .map(|variable| {
                        format!("{}: {} {}", variable.name, variable.type_, variable.summary)
                    })
                    .collect();
                or_nothing(lines, "there are no variables")
            }
            Order::Files => {
                let files = room.files().await;
                let lines: Vec<String> = files
                    .iter()
                    .map(|file| format!("{} ({} bytes)", file.path, file.bytes))
                    .collect();
                or_nothing(lines, "there are no files")
            }
            Order::Model(None) => format!("the model is {}", self.model),
            Order::Model(Some(name)) => {
                let (agent, servers) = make_agent(self.args, Some(&name), self.console).await?;
                conversation.set_agent(&agent);
                self.model = agent.model_name().to_owned();
                self.servers.push(servers);
                format!("the model is {name} now")
            }
            Order::Save(path) => {
                let untrusted = self.args.equipment.session.untrusted_directories();
                let written = untrusted.write(&path, markdown(&self.said).as_bytes());
                written.map_err(|error| {
                    Usage::plain(format!("cannot write {}: {error}", path.display()))
                })?;
                format!("saved as {}", path.display())
            }
            Order::Help => HELP.to_owned(),
            Order::Quit => return Ok(()),
        };
        self.console.print_guest(&format!("{text}\n"))?;
        Ok(())
    }
}

fn or_nothing(lines: Vec<String>, nothing: &str) -> String {
    if lines.is_empty() {
        nothing.to_owned()
    } else {
        lines.join("\n")
    }
}

/// The conversation for people.
fn markdown(said: &[Said]) -> String {
    let mut text = String::new();
    for said in said {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "## {}\n", said.question);
        for done in said.outcome.cells() {
            let code = done.code.as_deref().unwrap_or_default();
            let output = done
                .result
                .as_ref()
                .map_or("", |result| result.output.trim_end());
            let _ = writeln!(text, "```python\n{code}\n```\n\n```text\n{output}\n```\n");
        }
        let answer = match &said.outcome.answer {
            Some(_) => said.outcome.answer_text(),
            None => format!("no answer ({})", said.outcome.status),
        };
        let _ = writeln!(text, "{answer}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_and_wrong_ones_explained() {
        assert_eq!(Order::read("how many?"), None);
        assert_eq!(Order::read("/undo"), Some(Ok(Order::Undo(1))));
        assert_eq!(Order::read("/undo 3"), Some(Ok(Order::Undo(3))));
        assert_eq!(
            Order::read("/undo x"),
            Some(Err("/undo needs a number".to_owned()))
        );
        assert_eq!(
            Order::read("/save"),
            Some(Err("/save needs the name of a file".to_owned()))
        );
        assert_eq!(Order::read("/model"), Some(Ok(Order::Model(None))));
        assert!(
            matches!(Order::read("/und"), Some(Err(problem)) if problem.starts_with("there is no order /und"))
        );
    }
}

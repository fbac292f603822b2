//! The commands of a chat: lines that begin with `/`.

use super::{Chat, make_agent};
use crate::agent_run::{RunSetup, read_files};
use crate::failure::Usage;
use cellblock::agent::Outcome;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

/// A command of a chat.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SlashCommand {
    Undo(usize),
    Fork,
    Switch(usize),
    Plan,
    Attach(PathBuf),
    Vars,
    Files,
    /// Another one, or which one it is.
    Model(Option<String>),
    Save(PathBuf),
    Help,
    Quit,
}

/// A question with what came of it.
pub(super) struct Exchange {
    pub(super) question: String,
    pub(super) outcome: Outcome,
}

const HELP: &str = "/undo [N], /fork, /switch N, /plan, /attach PATH, /vars, /files, /model [NAME], /save FILE, /help, /quit";

/// The names of the commands, for completion.
pub(super) const SLASH_COMMAND_NAMES: [&str; 11] = [
    "undo", "fork", "switch", "plan", "attach", "vars", "files", "model", "save", "help", "quit",
];

impl SlashCommand {
    /// Parses a line. `None` if it is not a command; an error if its arguments do not fit.
    pub(super) fn read(line: &str) -> Option<Result<SlashCommand, String>> {
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
            "undo" => number(Some(1)).map(SlashCommand::Undo),
            "fork" => Ok(SlashCommand::Fork),
            "switch" => number(None).map(SlashCommand::Switch),
            "plan" => Ok(SlashCommand::Plan),
            "attach" => needed("a path").map(|path| SlashCommand::Attach(path.into())),
            "vars" => Ok(SlashCommand::Vars),
            "files" => Ok(SlashCommand::Files),
            "model" => Ok(SlashCommand::Model(
                (!rest.is_empty()).then(|| rest.to_owned()),
            )),
            "save" => needed("the name of a file").map(|name| SlashCommand::Save(name.into())),
            "help" => Ok(SlashCommand::Help),
            "quit" | "exit" => Ok(SlashCommand::Quit),
            other => Err(format!(
                "there is no command /{other}; the commands are {HELP}"
            )),
        })
    }
}

impl Chat<'_> {
    /// Does what was ordered.
    pub(super) async fn run_command(&mut self, command: SlashCommand) -> anyhow::Result<()> {
        let Some(conversation) = self.branches.get_mut(self.current) else {
            return Ok(());
        };
        let executor = conversation.executor().clone();
        let unable = |error: cellblock::tools::ToolError| Usage::plain(error.to_string());
        let text = match command {
            SlashCommand::Undo(count) => {
                let undone = conversation.undo(count).await.map_err(unable)?;
                match undone.cell {
                    0 => "the session is as at its beginning".to_owned(),
                    cell => format!("the session is as after cell {cell}"),
                }
            }
            SlashCommand::Fork => {
                let fork = conversation.fork().await.map_err(unable)?;
                self.branches.push(fork);
                self.current = self.branches.len() - 1;
                format!(
                    "this is conversation {}, a copy; /switch goes back",
                    self.branches.len()
                )
            }
            SlashCommand::Switch(number) => match number
                .checked_sub(1)
                .filter(|index| *index < self.branches.len())
            {
                Some(index) => {
                    self.current = index;
                    format!("this is conversation {number}")
                }
                None => format!("there are conversations 1 to {}", self.branches.len()),
            },
            SlashCommand::Plan => executor
                .plan()
                .unwrap_or_else(|| "there is no plan".to_owned()),
            SlashCommand::Attach(path) => {
                let untrusted = self.args.agent_run_args.session.untrusted_directories();
                let files = read_files(&[path], &untrusted)?;
                let names: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
                for file in files {
                    let contents = Arc::unwrap_or_clone(file.contents);
                    let put = executor.put_file(&file.path, contents).await;
                    put.map_err(unable)?;
                }
                let names = names.join(", ");
                conversation.note(&format!(
                    "The user put these files into the working directory: {names}"
                ));
                format!("attached {names}")
            }
            SlashCommand::Vars => {
                let variables = executor.variables().await;
                let lines: Vec<String> = variables
                    .iter()
                    .map(|variable| {
                        format!("{}: {} {}", variable.name, variable.type_, variable.summary)
                    })
                    .collect();
                or_nothing(lines, "there are no variables")
            }
            SlashCommand::Files => {
                let files = executor.files().await;
                let lines: Vec<String> = files
                    .iter()
                    .map(|file| format!("{} ({} bytes)", file.path, file.bytes))
                    .collect();
                or_nothing(lines, "there are no files")
            }
            SlashCommand::Model(None) => format!("the model is {}", self.model),
            SlashCommand::Model(Some(name)) => {
                let (agent, servers) =
                    make_agent(self.args, Some(&name), RunSetup::default(), self.console).await?;
                conversation.set_agent(&agent);
                self.model = agent.model_name().to_owned();
                self.servers.push(servers);
                format!("the model is {name} now")
            }
            SlashCommand::Save(path) => {
                let untrusted = self.args.agent_run_args.session.untrusted_directories();
                let written = untrusted.write(&path, markdown(&self.exchanges).as_bytes());
                written.map_err(|error| {
                    Usage::plain(format!("cannot write {}: {error}", path.display()))
                })?;
                format!("saved as {}", path.display())
            }
            SlashCommand::Help => HELP.to_owned(),
            SlashCommand::Quit => return Ok(()),
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
fn markdown(exchanges: &[Exchange]) -> String {
    let mut text = String::new();
    for exchanges in exchanges {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "## {}\n", exchanges.question);
        for done in exchanges.outcome.cells() {
            let code = done.code.as_deref().unwrap_or_default();
            let output = done
                .result
                .as_ref()
                .map_or("", |result| result.output.trim_end());
            let _ = writeln!(text, "```python\n{code}\n```\n\n```text\n{output}\n```\n");
        }
        let answer = match &exchanges.outcome.answer {
            Some(_) => exchanges.outcome.answer_text(),
            None => format!("no answer ({})", exchanges.outcome.status),
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
        assert_eq!(SlashCommand::read("how many?"), None);
        assert_eq!(SlashCommand::read("/undo"), Some(Ok(SlashCommand::Undo(1))));
        assert_eq!(
            SlashCommand::read("/undo 3"),
            Some(Ok(SlashCommand::Undo(3)))
        );
        assert_eq!(
            SlashCommand::read("/undo x"),
            Some(Err("/undo needs a number".to_owned()))
        );
        assert_eq!(
            SlashCommand::read("/save"),
            Some(Err("/save needs the name of a file".to_owned()))
        );
        assert_eq!(
            SlashCommand::read("/model"),
            Some(Ok(SlashCommand::Model(None)))
        );
        assert!(
            matches!(SlashCommand::read("/und"), Some(Err(problem)) if problem.starts_with("there is no command /und"))
        );
    }
}

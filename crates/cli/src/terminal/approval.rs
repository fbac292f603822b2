//! Asks the person at the terminal before a call is made.

use super::{Console, Style, highlight};
use cellblock::tools::names::REACH_HOST;
use cellblock::tools::{ApprovalRequest, Approver, Caller, CodeArgument, Decision, DecisionFuture};
use serde_json::Value;
use std::io::{self, BufRead as _, Write as _};
use std::process::Command;

/// The most characters of a purpose that are shown.
const MAX_PURPOSE_CHARS: usize = 400;

/// Asks on standard error and reads standard input.
#[derive(Clone, Debug)]
pub(crate) struct TerminalApprover {
    console: Console,
}

impl TerminalApprover {
    pub(crate) fn new(console: Console) -> TerminalApprover {
        TerminalApprover { console }
    }

    fn decide(&self, question: &ApprovalRequest) -> Decision {
        self.show(question);
        loop {
            let choices = match question.tool.as_str() {
                REACH_HOST => "[a]ccept this host in this run, [r]espond, re[j]ect?",
                _ => {
                    "[a]ccept, [e]dit, [r]espond, re[j]ect, al[w]ays accept this tool in this run?"
                }
            };
            let choice = self.console.on_err(Style::Hint, choices);
            // Once more: what came before may be longer than the screen, and look like the beginning of another call.
            let tool = self.console.name_on_err(&question.tool);
            self.console.ask(&format!("{tool}: {choice} "));
            let Some(word) = line() else {
                return Decision::Reject(Some("no person answered".to_owned()));
            };
            match word.trim() {
                "a" | "accept" | "y" | "yes" => return Decision::Accept,
                "w" | "always" => return Decision::Always,
                "j" | "reject" | "n" | "no" => return Decision::Reject(None),
                "r" | "respond" => {
                    self.console.ask("Your answer to the model: ");
                    match line() {
                        Some(text) if !text.trim().is_empty() => {
                            return Decision::Respond(text.trim().to_owned());
                        }
                        Some(_) => {}
                        None => return Decision::Reject(Some("no person answered".to_owned())),
                    }
                }
                "e" | "edit" => match edit(question) {
                    Ok(Some(decision)) => return decision,
                    Ok(None) => self.console.say("Nothing was changed."),
                    Err(problem) => self.console.error(&problem),
                },
                _ => self
                    .console
                    .hint("answer with one of the letters in brackets"),
            }
        }
    }

    fn show(&self, question: &ApprovalRequest) {
        let who = match question.caller {
            Caller::Code => "code in the session",
            Caller::Mcp => "an MCP client",
            Caller::User => "you",
            Caller::Model => "the model",
        };
        let console = &self.console;
        let tool = console.name_on_err(&question.tool);
        let tool = console.on_err(Style::Heading, &tool);
        console.say(&format!("{tool}, called by {who}"));
        if let Some(purpose) = &question.purpose {
            console.note(&console.on_err(Style::Dim, "why:"), &one_line(purpose));
        }
        let mut arguments = question.arguments.clone();
        if let Some(CodeArgument { name, code }) = question.code() {
            // Code that hides a part of itself must not be accepted unseen.
            let code = console.judged_on_err(code);
            let shown = match console.err_is_coloured() {
                true => highlight(&code),
                false => code.into_owned(),
            };
            console.say(&indented(&shown));
            arguments.remove(name);
        }
        for (name, value) in &arguments {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let name = console.name_on_err(name);
            console.say(&argument(&name, &console.judged_on_err(&text)));
        }
    }
}

impl Approver for TerminalApprover {
    fn ask(&self, question: ApprovalRequest) -> DecisionFuture {
        let ask_input = self.clone();
        let asked = tokio::task::spawn_blocking(move || ask_input.decide(&question));
        Box::pin(async move {
            asked
                .await
                .unwrap_or_else(|_| Decision::Reject(Some("the question was lost".to_owned())))
        })
    }
}

fn line() -> Option<String> {
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(line),
    }
}

/// Opens the code, or the arguments as JSON, in the person's editor. `None` when nothing was changed.
fn edit(question: &ApprovalRequest) -> Result<Option<Decision>, String> {
    let whole = Value::Object(question.arguments.clone());
    let (suffix, before) = match question.code() {
        Some(CodeArgument { code, .. }) => (".py", code.to_owned()),
        None => (".json", format!("{whole:#}\n")),
    };
    let failed = |what: &str, error: io::Error| format!("{what}: {error}");
    let mut file = tempfile::Builder::new()
        .prefix("cellblock-")
        .suffix(suffix)
        .tempfile()
        .map_err(|error| failed("no file to edit could be made", error))?;
    file.write_all(before.as_bytes())
        .map_err(|error| failed("the file to edit could not be written", error))?;
    let editor = ["VISUAL", "EDITOR"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok());
    let editor = editor
        .filter(|editor| !editor.trim().is_empty())
        .unwrap_or_else(|| "vi".to_owned());
    // As a shell would: an editor may have arguments.
    let status = Command::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(file.path())
        .status()
        .map_err(|error| failed("the editor could not be started", error))?;
    if !status.success() {
        return Err(format!("the editor `{editor}` ended with {status}"));
    }
    let after = std::fs::read_to_string(file.path())
        .map_err(|error| failed("the edited file could not be read", error))?;
    if after == before {
        return Ok(None);
    }
    let mut arguments = question.arguments.clone();
    match question.code() {
        Some(CodeArgument { name, .. }) => {
            arguments.insert(name.to_owned(), Value::String(after));
        }
        None => match serde_json::from_str(&after) {
            Ok(Value::Object(edited)) => arguments = edited,
            Ok(_) => return Err("the arguments must be a JSON object".to_owned()),
            Err(error) => return Err(format!("the edited arguments are not JSON: {error}")),
        },
    }
    Ok(Some(Decision::Edit(arguments)))
}

/// A purpose on one line, and not longer than a few: the caller chose it, and it must not look like another call.
fn one_line(purpose: &str) -> String {
    let words: Vec<&str> = purpose.split_whitespace().collect();
    let words = words.join(" ");
    match words.char_indices().nth(MAX_PURPOSE_CHARS) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

/// An argument. Later lines of its value are marked, so that none can be taken for an argument of its own.
fn argument(name: &str, value: &str) -> String {
    let lines: Vec<&str> = value.trim_end().lines().collect();
    format!("  {name}: {}", lines.join("\n  | "))
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text
        .trim_end()
        .lines()
        .map(|line| format!("  {line}"))
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purpose_cannot_look_like_another_call() {
        let forged = format!(
            "to tidy up{}read_file, called by the model",
            "\n".repeat(200)
        );
        assert_eq!(
            one_line(&forged),
            "to tidy up read_file, called by the model"
        );
        let long = one_line(&"é".repeat(MAX_PURPOSE_CHARS + 1));
        assert_eq!(long.chars().count(), MAX_PURPOSE_CHARS + 1);
        assert!(long.ends_with('…'));
    }

    #[test]
    fn a_line_of_a_value_cannot_look_like_another_argument() {
        assert_eq!(
            argument("body", "hello\nto: friend@example.org\n"),
            "  body: hello\n  | to: friend@example.org"
        );
        assert_eq!(argument("body", ""), "  body: ");
    }
}

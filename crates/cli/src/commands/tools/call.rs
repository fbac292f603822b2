//! One call by hand.

use crate::args::{EnvironmentArgs, PythonArgs, ResultArgs, SessionArgs};
use crate::commands::live::{Signals, Stopped};
use crate::commands::runtime;
use crate::commands::toolbox::{ApprovalArgs, Audience, ToolboxArgs, tool_runner};
use crate::config::ConfigArgs;
use crate::failure::{self, Usage};
use crate::terminal::{Console, Style};
use cellblock::tools::{Answer, ApprovalRule, Call, Caller, Failure};
use clap::Args;
use serde_json::json;
use std::io::Read as _;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CallArgs {
    /// The tool
    #[arg(value_name = "NAME")]
    name: String,
    /// Its arguments as a JSON object, or - for standard input
    #[arg(value_name = "JSON", default_value = "{}", hide_default_value = true)]
    arguments: String,
    #[command(flatten)]
    form: ResultArgs,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    toolbox: ToolboxArgs,
    #[command(flatten)]
    approval: ApprovalArgs,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    python: PythonArgs,
    #[command(flatten)]
    environment: EnvironmentArgs,
}

const EXAMPLES: &str = "\
Examples:
  cellblock tools call compute '{\"code\": \"2**100\", \"description\": \"a power\"}'
  cellblock tools call file_reader '{\"file_path\": \"notes.txt\"}' --workspace .
  echo '{\"python_code_snippet\": \"print(1)\"}' | cellblock tools call execute_python_code -
  cellblock tools call execute_python_code '{\"python_code_snippet\": \"print(1)\"}' --approve all

Exit status:
  0 the tool answered, 1 the call failed or was not allowed, 130 interrupted,
  2 wrong usage: no such tool, or arguments that do not fit, 3 could not start";

/// Calls the tool.
pub(crate) fn run(args: &CallArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let runtime = runtime::on_this_thread()?;
    let outcome = runtime.block_on(call(args, console));
    // A thread may still wait for a person.
    runtime.shutdown_background();
    outcome.map(ExitCode::from)
}

async fn call(args: &CallArgs, console: &Console) -> anyhow::Result<u8> {
    let arguments = match args.arguments.as_str() {
        "-" => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| Usage::plain(format!("standard input cannot be read: {error}")))?;
            text
        }
        text => text.to_owned(),
    };
    let mut signals = Signals::new()?;
    let config = args.config.load()?;
    let python = args.python.settled(&config)?;
    let toolbox = args
        .toolbox
        .open(&python, &config, Audience::Us, console)
        .await?;
    let mut policy = args.approval.policy(&config);
    if args.approval.approve.is_none() {
        // Whoever calls by hand has agreed.
        policy = policy.with(args.name.as_str(), ApprovalRule::Allow);
    }
    let runner = tool_runner(
        toolbox.registry.clone(),
        policy,
        &args.session.settled(&config)?,
        (&python, &args.environment),
        console,
    )?;
    let call = Call {
        id: "call".to_owned(),
        name: args.name.clone(),
        arguments: arguments.into(),
        caller: Caller::User,
    };
    let answer = match signals.or(runner.call(call)).await {
        Ok(answer) => answer,
        Err(Stopped::Signal(signal)) => {
            runner.close().await;
            toolbox.close().await;
            return Ok(128 + signal as u8);
        }
        Err(_) => return Ok(1),
    };
    // Told before the session is closed: nobody should wait for our cleaning up.
    let told = args.tell(&answer, console);
    runner.close().await;
    toolbox.close().await;
    told?;
    Ok(status(&answer))
}

impl CallArgs {
    fn tell(&self, answer: &Answer, console: &Console) -> anyhow::Result<()> {
        if self.form.json {
            let whole = match &answer.outcome {
                Ok(output) => json!({"ok": true, "output": output, "notes": answer.notes}),
                Err(failure) => {
                    json!({"ok": false, "error": failure.to_string(), "notes": answer.notes})
                }
            };
            console.print_json(&whole)?;
            return Ok(());
        }
        if self.form.for_model {
            let text = answer.for_model(self.form.locale, 20_000);
            console.print_guest(&format!("{text}\n"))?;
            return Ok(());
        }
        for note in &answer.notes {
            console.say(&console.on_err(Style::Dim, &console.safe_on_err(note)));
        }
        match &answer.outcome {
            Ok(output) => console.print_guest(&format!("{}\n", output.to_text()))?,
            Err(failure) => console.error(&failure.to_string()),
        }
        Ok(())
    }
}

fn status(answer: &Answer) -> u8 {
    match &answer.outcome {
        Ok(_) => 0,
        Err(Failure::UnknownTool { .. } | Failure::NotJson { .. } | Failure::Invalid { .. }) => {
            failure::USAGE
        }
        Err(_) => 1,
    }
}

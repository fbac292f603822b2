//! The last step of the tour: a model's question, answered by code that really runs.

use super::stage::Stage;
use anyhow::Context as _;
use cellblock::agent::{Agent, CancellationToken, Format, Observer, RunEvent, executor};
use cellblock::model::{Reply, ScriptedModel};
use cellblock::{Host, SessionOptions, Status};
use serde::Deserialize;
use std::sync::Arc;

/// Replies of a model, kept so that the tour needs no network.
const KEPT: &str = include_str!("../../../demo/scripted-compound-interest.json");

#[derive(Deserialize)]
struct Kept {
    question: String,
    replies: Vec<Reply>,
}

/// Asks, shows what happens, and checks that the answer was computed.
pub(super) async fn ask(stage: &Stage, host: &Host) -> anyhow::Result<Result<(), String>> {
    let kept: Kept =
        serde_json::from_str(KEPT).context("the replies of the tour cannot be read")?;
    stage.line(&format!("   {}", kept.question))?;
    stage.aside("   The model's replies are kept from before, so that this needs no network. The code really runs.")?;
    let agent = Agent::builder()
        .model(ScriptedModel::new(kept.replies))
        .executor(executor(
            host.clone(),
            SessionOptions::default(),
            Vec::new(),
        ))
        .format(Format::Json)
        .build()?;
    let outcome = agent
        .run_observed(&kept.question, teller(stage), CancellationToken::new())
        .await?;
    let answer = outcome.answer_text();
    stage.line(&format!("   Final answer: {answer}"))?;
    let cells: Vec<(Status, Option<String>)> = outcome
        .cells()
        .filter_map(|done| done.result.as_ref())
        .map(|result| {
            (
                result.status,
                result.value.as_ref().map(|value| value.repr.clone()),
            )
        })
        .collect();
    let expected = [
        (Status::Failure, None),
        (Status::Success, Some("21386.41".to_owned())),
    ];
    Ok(if answer == "21386.41" && cells == expected {
        Ok(())
    } else {
        Err(format!(
            "the answer is {answer:?} and the cells gave {cells:?}"
        ))
    })
}

/// Prints thoughts, code and results as they come. An output that nobody reads shows at the next line of the tour.
fn teller(stage: &Stage) -> Observer {
    let stage = stage.clone();
    Arc::new(move |event| {
        let _ = match event {
            RunEvent::Thought { text, .. } => stage.line(&format!("   Thinking: {text}")),
            RunEvent::Code { code, .. } => stage.code(code),
            RunEvent::Done { done, .. } => {
                let value = done
                    .result
                    .as_ref()
                    .and_then(|result| result.value.as_ref());
                let words = match (&done.error, value) {
                    (Some(error), _) => error.clone(),
                    (None, Some(value)) => value.repr.clone(),
                    (None, None) => String::new(),
                };
                stage.line(&format!("   {words}"))
            }
            _ => Ok(()),
        };
    })
}

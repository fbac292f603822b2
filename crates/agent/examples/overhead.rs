//! What the agent adds to each step: a scripted model, 200 steps, code that does nothing. Run it with `--release`.
#![allow(clippy::unwrap_used, reason = "an example")]

use cellblock_agent::{Agent, Format, NoopExecutor, RunLimits};
use cellblock_model::{Reply, ScriptedModel};
use std::time::Instant;

#[tokio::main]
async fn main() {
    for format in [Format::Markdown, Format::Json] {
        let model = ScriptedModel::from_fn(move |_, index| {
            let code = format!("step = {index}");
            Ok(Reply::text(match (index, format) {
                (200, Format::Markdown) => "done".to_owned(),
                (200, _) => r#"{"action": "provide_answer", "final_answer": "done"}"#.to_owned(),
                (_, Format::Markdown) => format!("```python\n{code}\n```"),
                _ => serde_json::json!({"action": "execute_code", "code": code}).to_string(),
            }))
        });
        let limits = RunLimits {
            steps: 250,
            ..RunLimits::default()
        };
        let agent = Agent::builder()
            .model(model)
            .executor(NoopExecutor)
            .format(format)
            .limits(limits)
            .build()
            .unwrap();
        let begun = Instant::now();
        let outcome = agent.run("How far?").await.unwrap();
        let each = begun.elapsed().as_secs_f64() * 1e3 / outcome.steps.len() as f64;
        println!(
            "{format}: {} steps, {each:.3} ms each, {}",
            outcome.steps.len(),
            outcome.status
        );
    }
}

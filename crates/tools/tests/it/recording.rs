//! Recorded results, given again.

use crate::support::{execute, sessions, wait};
use cellblock_protocol::Cell;
use cellblock_tools::{Context, Output, Recording, Registry, Tool, ToolError, ToolRunner};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Deserialize, JsonSchema)]
struct Dice {
    sides: u64,
}

/// Never gives the same twice.
struct RollTool(Arc<AtomicU64>);

impl Tool for RollTool {
    type Parameters = Dice;
    type Output = Output;

    async fn call(&self, dice: Dice, _: &Context) -> Result<Output, ToolError> {
        let rolled = self.0.fetch_add(1, Ordering::SeqCst);
        match dice.sides {
            0 => Err(ToolError::new(format!("no sides, try {rolled}"))),
            1 => Ok(Output::blob("image/png", rolled.to_le_bytes().to_vec())),
            sides => Ok(Output::json(rolled * 100 + sides)),
        }
    }
}

const CODE: &str = "
seen = [roll(6), roll(sides='6'), roll(20)]
try: roll(0)
except ToolError as error: seen.append(str(error))
seen.append(roll(1).bytes())
print(seen)";

#[test]
fn a_recorded_run_can_be_run_again_without_its_tools() {
    let rolls = Arc::new(AtomicU64::new(1));
    let registry = Registry::builder()
        .built_in()
        .tool(RollTool(Arc::clone(&rolls)))
        .build()
        .unwrap();
    let runner = ToolRunner::builder(registry.clone())
        .open_sessions(sessions())
        .record()
        .build();
    let first = wait(runner.run_cell(Cell::new(CODE), None))
        .unwrap()
        .result
        .stdout;
    // As a file would keep it.
    let text = serde_json::to_string(&runner.recording().unwrap()).unwrap();
    let recording: Recording = serde_json::from_str(&text).unwrap();
    assert_eq!(recording.calls.len(), 5);
    assert_eq!(json!(recording.calls[1].arguments), json!({"sides": 6}));

    let again = ToolRunner::builder(registry)
        .open_sessions(sessions())
        .replay(recording)
        .build();
    assert_eq!(
        wait(again.run_cell(Cell::new(CODE), None))
            .unwrap()
            .result
            .stdout,
        first
    );
    assert_eq!(rolls.load(Ordering::SeqCst), 6, "the tool was called again");
    // Each result is given once, and code is really run.
    let told = execute(&again, "x = 6\nroll(x)");
    assert!(
        told.contains("ToolError: nothing is recorded for this call of `roll`: {\"sides\":6}"),
        "{told}"
    );
}

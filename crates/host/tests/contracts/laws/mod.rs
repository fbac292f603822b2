//! R: the laws of a session, and the worked examples that must give exactly this.

mod endings;
mod output;
mod seeds;
mod state;
mod tracebacks;
mod values;
mod waiting;
mod worked_examples;

use cellblock_protocol::Status;

/// The type of the exception, and what else a failure is judged by.
fn failure(result: cellblock_protocol::CellResult) -> (Status, String) {
    (result.status, result.error.unwrap().type_)
}

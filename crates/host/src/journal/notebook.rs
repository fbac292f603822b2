//! A journal as a Jupyter notebook: the cells that were kept, with what they showed.

use super::run_record::RunRecord;
use cellblock_protocol::{CellResult, MimeBundle, import_statement};
use cellblock_session::journal::{CellSummary, Journal};
use serde_json::{Map, Value, json};

/// A notebook in the form nbformat 4.5.
pub fn notebook(journal: &Journal) -> Value {
    let summary = journal.summary();
    let mut cells: Vec<Value> = beginning(journal).into_iter().collect();
    cells.extend(summary.kept().map(of_cell));
    whole(journal, &cells)
}

/// The same for a run of the agent: with the question, what the model thought before each cell, and the answer.
pub fn notebook_of_run(journal: &Journal, run: &RunRecord) -> Value {
    let summary = journal.summary();
    let mut cells = vec![words("question", &run.question)];
    cells.extend(beginning(journal));
    for cell in summary.kept() {
        let thought = run.thoughts.get(&cell.number);
        let thought = thought.filter(|thought| !thought.trim().is_empty());
        cells.extend(thought.map(|thought| words(&format!("thought-{}", cell.number), thought)));
        cells.push(of_cell(cell));
    }
    if let Some(answer) = &run.answer {
        cells.push(words("answer", &format!("**Final answer**\n\n{answer}")));
    }
    whole(journal, &cells)
}

fn words(id: &str, text: &str) -> Value {
    json!({"cell_type": "markdown", "id": id, "metadata": {}, "source": text})
}

fn whole(journal: &Journal, cells: &[Value]) -> Value {
    let python = &journal.opened.python;
    json!({
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Cellblock (Python 3)", "language": "python", "name": "cellblock"},
            "language_info": {"name": "python", "version": python.version, "file_extension": ".py", "mimetype": "text/x-python"},
            "cellblock": {"session": journal.session, "journal": journal.id, "incomplete": journal.incomplete},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    })
}

/// What was there before the first cell.
fn beginning(journal: &Journal) -> Option<Value> {
    let options = &journal.opened.options;
    let mut source: Vec<String> = options
        .imports
        .iter()
        .filter_map(|import| import_statement(import).ok())
        .collect();
    for (name, value) in &options.seed {
        source.push(format!("{name} = {}", super::literal::of_value(value)));
    }
    source.extend(options.setup.clone());
    (!source.is_empty()).then(|| {
        json!({
            "cell_type": "code", "id": "cell-0", "metadata": {}, "execution_count": null,
            "source": source.join("\n"), "outputs": [],
        })
    })
}

fn of_cell(cell: &CellSummary) -> Value {
    let result = cell.ended.as_ref().map(|ended| &ended.result);
    let calls = cell.ended.as_ref().map_or(&[][..], |ended| &ended.calls);
    let mut metadata = Map::new();
    if !calls.is_empty() {
        metadata.insert("cellblock".to_owned(), json!({"tool_calls": calls}));
    }
    json!({
        "cell_type": "code",
        "id": format!("cell-{}", cell.number),
        "metadata": metadata,
        "execution_count": cell.number,
        "source": cell.cell.code,
        "outputs": result.map(outputs).unwrap_or_default(),
    })
}

/// Both streams, what was shown, the value, and the exception. Which of them came first within a cell is not known any more.
fn outputs(result: &CellResult) -> Vec<Value> {
    let mut outputs = Vec::new();
    for (name, text) in [("stdout", &result.stdout), ("stderr", &result.stderr)] {
        if !text.is_empty() {
            outputs.push(json!({"output_type": "stream", "name": name, "text": text}));
        }
    }
    for display in &result.displays {
        outputs.push(json!({"output_type": "display_data", "data": data(display), "metadata": {}}));
    }
    if let Some(value) = &result.value {
        let mut data = data(&value.mime);
        data.entry("text/plain")
            .or_insert_with(|| json!(value.repr));
        outputs.push(json!({
            "output_type": "execute_result", "execution_count": result.cell, "data": data, "metadata": {},
        }));
    }
    if let Some(error) = &result.error {
        let traceback: Vec<&str> = error.traceback.lines().collect();
        outputs.push(json!({
            "output_type": "error", "ename": error.type_, "evalue": error.value, "traceback": traceback,
        }));
    }
    outputs
}

fn data(bundle: &MimeBundle) -> Map<String, Value> {
    let forms = bundle.iter();
    forms
        .map(|(kind, content)| (kind.to_owned(), content.to_value()))
        .collect()
}

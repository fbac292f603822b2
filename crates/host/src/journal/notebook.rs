//! A journal as a Jupyter notebook: the cells that were kept, with what they showed.

use super::run_record::RunRecord;
use cellblock_protocol::{CellResult, MimeBundle, import_statement};
use cellblock_session::journal::{CellSummary, Journal};
use serde_json::{Map, Value, json};

/// The memory that structures in displays may take together in one notebook. Code decides what is in them.
const MAX_STRUCTURE_MEMORY: usize = 256 << 20;

/// A notebook in the form nbformat 4.5.
pub fn notebook(journal: &Journal) -> Value {
    let summary = journal.summary();
    let mut cells: Vec<Value> = beginning(journal).into_iter().collect();
    let mut writer = CellWriter::new();
    cells.extend(summary.kept().map(|cell| writer.cell(cell)));
    whole(journal, &cells)
}

/// The same for a run of the agent: with the question, what the model thought before each cell, and the answer.
pub fn notebook_of_run(journal: &Journal, run: &RunRecord) -> Value {
    let summary = journal.summary();
    let mut cells = vec![words("question", &run.question)];
    cells.extend(beginning(journal));
    let mut writer = CellWriter::new();
    for cell in summary.kept() {
        let thought = run.thoughts.get(&cell.number);
        let thought = thought.filter(|thought| !thought.trim().is_empty());
        cells.extend(thought.map(|thought| words(&format!("thought-{}", cell.number), thought)));
        cells.push(writer.cell(cell));
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

/// Writes the cells of one notebook.
struct CellWriter {
    /// The memory that is left for structures.
    left: usize,
}

impl CellWriter {
    fn new() -> CellWriter {
        CellWriter {
            left: MAX_STRUCTURE_MEMORY,
        }
    }

    fn cell(&mut self, cell: &CellSummary) -> Value {
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
            "outputs": result.map(|result| self.outputs(result)).unwrap_or_default(),
        })
    }

    /// Both streams, what was shown, the value, and the exception. Which of them came first within a cell is not known any more.
    fn outputs(&mut self, result: &CellResult) -> Vec<Value> {
        let mut outputs = Vec::new();
        for (name, text) in [("stdout", &result.stdout), ("stderr", &result.stderr)] {
            if !text.is_empty() {
                outputs.push(json!({"output_type": "stream", "name": name, "text": text}));
            }
        }
        for display in &result.displays {
            let data = self.data(display);
            outputs.push(json!({"output_type": "display_data", "data": data, "metadata": {}}));
        }
        if let Some(value) = &result.value {
            let mut data = self.data(&value.mime);
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

    /// The forms of what was shown. A structure for which there is no memory left is named by a text.
    fn data(&mut self, bundle: &MimeBundle) -> Map<String, Value> {
        let mut data = Map::new();
        for (kind, content) in bundle.iter() {
            let memory = match content.as_str() {
                Some(_) => 0,
                None => content.memory_when_parsed(),
            };
            if memory <= self.left {
                self.left -= memory;
                data.insert(kind.to_owned(), content.to_value());
            } else {
                let text = format!(
                    "{kind}: {} bytes, left out of the notebook",
                    content.bytes()
                );
                data.entry("text/plain").or_insert_with(|| json!(text));
            }
        }
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_for_which_there_is_no_memory_are_named() {
        let small_values = Value::from_iter((0..1000).map(|_| json!({"": 0})));
        let bundle: MimeBundle = [("application/json".to_owned(), small_values)]
            .into_iter()
            .collect();
        let mut writer = CellWriter { left: 1_000_000 };
        let first = writer.data(&bundle);
        assert!(first["application/json"].is_array());
        let second = writer.data(&bundle);
        assert_eq!(
            second["text/plain"],
            "application/json: 7001 bytes, left out of the notebook"
        );
        assert_eq!(second.len(), 1);
    }
}

//! Notebooks as files: run from top to bottom, with their outputs written back.

use crate::kernel::{Kernel, KernelAbout, Outgoing, SessionOpener, outgoing_queues};
use crate::message::{Channel, Message, fresh_id};
use crate::notebook_outputs::NotebookOutputs;
use cellblock_protocol::{JsonError, parse_json_within};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio::sync::mpsc;

/// The tag of the cell with default parameters, and of the cell that is put behind it. Papermill has the same.
const PARAMETERS_TAG: &str = "parameters";
const INJECTED_TAG: &str = "injected-parameters";
/// The tag of a cell that may fail.
const MAY_FAIL_TAG: &str = "raises-exception";

/// The memory that a notebook may take. Those with many pictures take less; code that writes notebooks can make small ones that take more.
const MAX_NOTEBOOK_MEMORY: usize = 1 << 30;

/// A notebook of the form nbformat 4.
#[derive(Clone, Debug, PartialEq)]
pub struct Notebook {
    document: Map<String, Value>,
}

/// Why a text is no notebook that can be run.
#[derive(Debug, thiserror::Error)]
pub enum NotebookError {
    /// The text is no JSON.
    #[error("the notebook is no JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It has so many values that it would take too much memory.
    #[error("the notebook has too many values: it would take more than 1 GiB of memory")]
    TooLarge,
    /// The JSON is no notebook of the form 4.
    #[error("the file is no notebook of the form nbformat 4")]
    Form,
    /// The notebook is in another language.
    #[error("the notebook is in {0}, not in Python")]
    Language(String),
}

/// How a notebook ended.
#[derive(Clone, Debug, PartialEq)]
pub enum NotebookEnd {
    /// Every cell was run.
    Done,
    /// A cell failed, and those after it were not run.
    Failed {
        /// The place of the cell in the notebook, from 1, counting all cells.
        cell: usize,
        /// The exception, or how Python ended.
        name: String,
        /// The message of the exception.
        value: String,
        /// What the host knows of the end: `status`, `exit_code` and `signal` of the cell's result.
        ending: Value,
    },
}

impl Notebook {
    /// Reads a notebook.
    pub fn parse(text: &str) -> Result<Self, NotebookError> {
        let parsed = parse_json_within(text.as_bytes(), MAX_NOTEBOOK_MEMORY);
        let Value::Object(document) = parsed.map_err(|error| match error {
            JsonError::TooManyValues { .. } => NotebookError::TooLarge,
            JsonError::Json(error) => NotebookError::Json(error),
        })?
        else {
            return Err(NotebookError::Form);
        };
        let is_known = document.get("nbformat").and_then(Value::as_u64) == Some(4);
        let has_cells = document.get("cells").is_some_and(Value::is_array);
        if !is_known || !has_cells {
            return Err(NotebookError::Form);
        }
        let metadata = document.get("metadata");
        let language = metadata.and_then(|metadata| {
            let named = |key: &str, field: &str| metadata.get(key)?.get(field)?.as_str();
            named("kernelspec", "language").or_else(|| named("language_info", "name"))
        });
        match language {
            Some(language) if !language.eq_ignore_ascii_case("python") => {
                Err(NotebookError::Language(language.to_owned()))
            }
            _ => Ok(Self { document }),
        }
    }

    /// The text of the notebook, as Jupyter writes it.
    pub fn to_text(&self) -> String {
        let mut text = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(b" ");
        let mut serializer = serde_json::Serializer::with_formatter(&mut text, formatter);
        // Maps with texts as keys are always written.
        let _ = serde::Serialize::serialize(&self.document, &mut serializer);
        text.push(b'\n');
        String::from_utf8(text).unwrap_or_default()
    }

    /// Puts a cell with assignments behind the cell with the tag `parameters`, or at the beginning. A cell of an earlier run is replaced.
    pub fn set_parameters(&mut self, assignments: &[String]) {
        if assignments.is_empty() {
            return;
        }
        let mut cell = json!({
            "cell_type": "code",
            "execution_count": null,
            "metadata": {"tags": [INJECTED_TAG]},
            "outputs": [],
            "source": format!("# Parameters\n{}\n", assignments.join("\n")),
        });
        if self.document.get("nbformat_minor").and_then(Value::as_u64) >= Some(5) {
            cell["id"] = fresh_id()[..8].into();
        }
        let cells = self.cells();
        if let Some(earlier) = cells.iter_mut().find(|cell| has_tag(cell, INJECTED_TAG)) {
            *earlier = cell;
            return;
        }
        let defaults = cells.iter().position(|cell| has_tag(cell, PARAMETERS_TAG));
        cells.insert(defaults.map_or(0, |place| place + 1), cell);
    }

    /// Runs the code cells in order. The outputs of each replace those it had. Each value of `interrupts` interrupts the cell that runs.
    pub async fn run(
        &mut self,
        opener: Arc<dyn SessionOpener>,
        about: KernelAbout,
        mut interrupts: mpsc::Receiver<()>,
    ) -> NotebookEnd {
        let (queues, mut ordered, _control) = outgoing_queues();
        let kernel = Kernel::start(opener, about, queues);
        let mut outputs = NotebookOutputs::default();
        let mut end = NotebookEnd::Done;
        for place in 0..self.cells().len() {
            let Some(code) = code_of(&self.cells()[place]) else {
                continue;
            };
            outputs.begin_cell(place);
            let running = run_cell(&kernel, &mut ordered, &code, &mut outputs);
            tokio::pin!(running);
            let reply = loop {
                tokio::select! {
                    reply = &mut running => break reply,
                    Some(()) = interrupts.recv() => kernel.interrupt(),
                }
            };
            let cell = &mut self.cells()[place];
            cell["execution_count"] = reply.content["execution_count"].clone();
            let may_fail = has_tag(cell, MAY_FAIL_TAG);
            if reply.content["status"] == "error" && !may_fail {
                end = NotebookEnd::Failed {
                    cell: place + 1,
                    name: reply.text("ename").to_owned(),
                    value: reply.text("evalue").to_owned(),
                    ending: reply.metadata.get("cellblock").cloned().unwrap_or_default(),
                };
                break;
            }
        }
        kernel.close().await;
        for (place, outputs) in outputs.into_cells() {
            self.cells()[place]["outputs"] = outputs.into();
        }
        end
    }

    fn cells(&mut self) -> &mut Vec<Value> {
        let cells = self.document.entry("cells").or_insert_with(|| json!([]));
        if !cells.is_array() {
            *cells = json!([]);
        }
        match cells {
            Value::Array(cells) => cells,
            _ => unreachable!("it was made an array"),
        }
    }
}

/// Runs one cell. Returns the reply.
async fn run_cell(
    kernel: &Kernel,
    ordered: &mut mpsc::Receiver<Outgoing>,
    code: &str,
    outputs: &mut NotebookOutputs,
) -> Message {
    let mut header = Map::new();
    header.insert("msg_id".to_owned(), fresh_id().into());
    header.insert("msg_type".to_owned(), "execute_request".into());
    let request = Message {
        identities: Vec::new(),
        header,
        parent_header: Map::new(),
        metadata: json!({}),
        content: json!({"code": code, "allow_stdin": false}),
        buffers: Vec::new(),
    };
    kernel.receive(Channel::Shell, request.clone()).await;
    while let Some(Outgoing { channel, message }) = ordered.recv().await {
        match channel {
            Channel::Iopub => outputs.add(message.kind(), &message.content),
            Channel::Shell => return message,
            _ => {}
        }
    }
    // The kernel is gone without a reply.
    let content =
        json!({"status": "error", "ename": "CellblockError", "evalue": "the kernel ended"});
    Message { content, ..request }
}

/// The source of a code cell that has any.
fn code_of(cell: &Value) -> Option<String> {
    if cell["cell_type"] != "code" {
        return None;
    }
    let code = match &cell["source"] {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    (!code.trim().is_empty()).then_some(code)
}

fn has_tag(cell: &Value, tag: &str) -> bool {
    let tags = cell["metadata"]["tags"].as_array();
    tags.is_some_and(|tags| tags.iter().any(|found| found == tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notebook(cells: &Value) -> Notebook {
        let document = json!({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells});
        Notebook::parse(&document.to_string()).unwrap()
    }

    #[test]
    fn parameters_come_behind_their_defaults() {
        let tagged = |tag: &str, source: &str| json!({"cell_type": "code", "source": source, "metadata": {"tags": [tag]}});
        let last = json!({"cell_type": "code", "source": "n", "metadata": {}});
        let mut found = notebook(&json!([tagged(PARAMETERS_TAG, "n = 1"), last]));
        for text in ["n = 2", "n = 3"] {
            found.set_parameters(&[text.to_owned()]);
        }
        let sources: Vec<String> = found.cells().iter().filter_map(code_of).collect();
        assert_eq!(sources, ["n = 1", "# Parameters\nn = 3\n", "n"]);
        let mut without = notebook(&json!([last]));
        without.set_parameters(&["n = 2".to_owned()]);
        assert!(has_tag(&without.cells()[0], INJECTED_TAG));
    }

    #[test]
    fn other_files_are_refused() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"nbformat": 3, "cells": []}"#,
            r#"{"nbformat": 4}"#,
        ] {
            assert!(Notebook::parse(text).is_err(), "{text}");
        }
        let many_values = format!(
            r#"{{"nbformat": 4, "cells": [{}]}}"#,
            "[],".repeat(2_500_000)
        );
        assert!(matches!(
            Notebook::parse(&many_values),
            Err(NotebookError::TooLarge)
        ));
        let julia =
            json!({"nbformat": 4, "cells": [], "metadata": {"kernelspec": {"language": "julia"}}});
        let refused = Notebook::parse(&julia.to_string());
        assert!(matches!(refused, Err(NotebookError::Language(_))));
    }
}

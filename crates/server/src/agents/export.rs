//! A run as a file: a script, a notebook, a page of HTML, or Markdown.

use crate::error::ApiError;
use cellblock_agent::{RunProgress, StoredRun};
use cellblock_host::journal::{Journal, RunRecord, fenced_block, notebook_of_run, script_of_run};
use serde_json::Value;

/// The kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExportKind {
    /// A script for python3 alone.
    Script,
    /// A Jupyter notebook.
    Notebook,
    /// The notebook as a page that stands alone.
    Html,
    /// The question, the thoughts, the code with its results, and the answer.
    Markdown,
}

impl ExportKind {
    /// By the ending of the file.
    pub(crate) fn of(name: &str) -> Result<ExportKind, ApiError> {
        match name {
            "py" => Ok(ExportKind::Script),
            "ipynb" => Ok(ExportKind::Notebook),
            "html" => Ok(ExportKind::Html),
            "md" => Ok(ExportKind::Markdown),
            other => Err(ApiError::invalid(format!(
                "as: py, ipynb, html or md, not `{other}`"
            ))),
        }
    }
}

/// The text of the file.
pub(crate) fn export(
    run: &StoredRun,
    journal: Option<&Journal>,
    kind: ExportKind,
) -> Result<String, ApiError> {
    if kind == ExportKind::Markdown {
        return Ok(markdown(run));
    }
    let journal = journal.ok_or_else(|| {
        ApiError::conflict("no_code", "the run ran no code: there is nothing to export")
            .hint("export it as md")
    })?;
    let record = RunRecord {
        run: run.id.clone(),
        question: run.start.question.clone(),
        thoughts: run.thoughts_by_cell(),
        answer: answer(run),
    };
    Ok(match kind {
        ExportKind::Script => script_of_run(journal, &record),
        ExportKind::Html => {
            let source = notebook_of_run(journal, &record).to_string();
            crate::web::document_of_notebook(&run.start.question, &source).unwrap_or_default()
        }
        _ => serde_json::to_string_pretty(&notebook_of_run(journal, &record)).unwrap_or_default(),
    })
}

fn answer(run: &StoredRun) -> Option<String> {
    match &run.progress {
        RunProgress::Ended(end) => end.answer.clone(),
        RunProgress::Running | RunProgress::CutOff => None,
    }
}

fn markdown(run: &StoredRun) -> String {
    let mut parts = vec![format!("# {}", run.start.question.trim())];
    for stored in &run.events {
        parts.extend(part(&stored.event));
    }
    parts.push(match answer(run) {
        Some(answer) => format!("## Answer\n\n{answer}"),
        None => "There is no answer.".to_owned(),
    });
    parts.join("\n\n") + "\n"
}

/// An event as Markdown. `None` for events that are not shown.
fn part(event: &Value) -> Option<String> {
    let text = |pointer: &str| {
        let text = event.pointer(pointer).and_then(Value::as_str);
        text.filter(|text| !text.trim().is_empty())
    };
    match text("/event")? {
        "thought" => Some(text("/text")?.to_owned()),
        "code" => Some(fenced_block("python", text("/code")?)),
        "done" => Some(fenced_block("", text("/done/text")?)),
        _ => None,
    }
}

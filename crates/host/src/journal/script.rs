//! A journal as a script that needs nothing but Python.

use super::literal::{of_source, of_text, of_value};
use super::run_record::RunRecord;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_protocol::{Seed, Status, ToolSpec, import_statement};
use cellblock_session::journal::{
    CallOutcome, CellSummary, InputAnswer, Journal, JournalStep, RecordedCall, RecordedInput,
};
use serde_json::Value;

const CORE: &str = include_str!("python/core.py");
const TOOLS: &str = include_str!("python/tools.py");
const FILES: &str = include_str!("python/files.py");

/// A script that does what was kept, in order, and prints what the cells print and the values of their last expressions. Calls of
/// tools and `input()` get the recorded answers.
pub fn script(journal: &Journal) -> String {
    let from = format!("sessions export {}", journal.id);
    script_ending(journal, &from, "")
}

/// The same for a run of the agent. At its end it checks whether the cells still give what the answer of the run stands on.
pub fn script_of_run(journal: &Journal, run: &RunRecord) -> String {
    let from = format!("runs export {}", run.run);
    let ending = match &run.answer {
        Some(answer) => {
            let basis: Vec<Value> = run.basis(journal).into_iter().map(Value::from).collect();
            let basis = of_value(&Value::from(basis));
            // The words of the model are a comment: what the script prints is what the code computes.
            let answer = one_line(answer);
            format!("\n# The answer of the run was: {answer}\nsession.check({basis})\n")
        }
        None => "\n# The run has no answer.\n".to_owned(),
    };
    let question = format!("\n# The question was: {}\n", one_line(&run.question));
    script_ending(journal, &from, &format!("{question}{ending}"))
}

fn script_ending(journal: &Journal, from: &str, ending: &str) -> String {
    let summary = journal.summary();
    let has_tools = summary
        .steps()
        .any(|step| matches!(step, JournalStep::Tools(_)));
    let has_files = summary
        .steps()
        .any(|step| matches!(step, JournalStep::PutFile(..)));
    let mut text = heading(journal, from);
    if has_files {
        text.push_str("import base64\n");
    }
    if has_tools {
        text.push_str("import json\nimport keyword\n");
    }
    text.push_str(CORE);
    if has_tools {
        text.push_str(TOOLS);
    }
    if has_files {
        text.push_str(FILES);
    }
    let place = if journal.opened.workspace_was_empty {
        "None"
    } else {
        "\".\""
    };
    text.push_str(&format!("\n\nsession = _Session({place})\n"));
    if has_tools {
        text.push_str("toolbox = _ToolBox(session)\n");
    }
    let options = &journal.opened.options;
    text.push_str(&seed(&options.seed));
    for import in &options.imports {
        // It was good when the session was opened.
        if let Ok(statement) = import_statement(import) {
            text.push_str(&format!("session.bind_import({})\n", of_text(&statement)));
        }
    }
    if let Some(setup) = &options.setup {
        text.push_str(&format!("\nsession.cell(0, {})\n", of_source(setup)));
    }
    for step in summary.steps() {
        text.push_str(&match step {
            JournalStep::Cell(cell) => of_cell(cell),
            JournalStep::Seed(variables) => seed(variables),
            JournalStep::Tools(tools) => offer(tools),
            JournalStep::Reset => "session.reset()\n".to_owned(),
            JournalStep::PutFile(path, bytes, contents) => {
                let contents = contents.map(|contents| of_text(&STANDARD.encode(&**contents)));
                let contents = contents.unwrap_or_else(|| "None".to_owned());
                format!("_put_file({}, {bytes}, {contents})\n", of_text(path))
            }
        });
    }
    text.push_str(ending);
    text.push_str("\nsession.end()\n");
    text
}

fn heading(journal: &Journal, from: &str) -> String {
    let python = &journal.opened.python;
    let what = if journal.opened.workspace_was_empty {
        "# It works in a new temporary directory; `python3 SCRIPT DIR` works in DIR instead."
    } else {
        "# It works in the current directory; `python3 SCRIPT DIR` works in DIR instead."
    };
    let packages = if python.packages {
        " and the packages that the cells import"
    } else {
        ""
    };
    let incomplete = journal
        .incomplete
        .as_ref()
        .map(|problem| format!("# The journal is not complete: {}\n", one_line(problem)))
        .unwrap_or_default();
    format!(
        "#!/usr/bin/env python3\n\
         # The cells of session `{}` that were kept, made by `cellblock {}`.\n\
         # It needs Python{packages}; it ran on {}. Calls of tools get the recorded answers.\n\
         {what}\n\
         {incomplete}\n",
        one_line(&journal.session),
        one_line(from),
        one_line(&python.version),
    )
}

/// What stands in a comment must not end it.
fn one_line(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}

fn seed(variables: &Seed) -> String {
    if variables.is_empty() {
        return String::new();
    }
    let variables = Value::Object(variables.clone());
    format!("session.seed({})\n", of_value(&variables))
}

fn offer(tools: &[ToolSpec]) -> String {
    let tool = |tool: &ToolSpec| {
        let parameters = of_value(&parameters(tool).into());
        let name = python_name(&tool.name);
        format!(
            "    ({}, {}, {parameters}),\n",
            of_text(&tool.name),
            of_text(&name)
        )
    };
    let tools: Vec<String> = tools.iter().map(tool).collect();
    format!("toolbox.offer([\n{}])\n", tools.concat())
}

/// The names of a tool's parameters in the order in which the guest takes them: required ones first.
fn parameters(tool: &ToolSpec) -> Vec<String> {
    const PURPOSE: &str = "tool_call_purpose";
    let properties = tool.parameters.get("properties").and_then(Value::as_object);
    let Some(properties) = properties else {
        return Vec::new();
    };
    let required = tool.parameters.get("required").and_then(Value::as_array);
    let required = required.into_iter().flatten().filter_map(Value::as_str);
    let mut names: Vec<String> = required
        .filter(|name| properties.contains_key(*name) && *name != PURPOSE)
        .map(str::to_owned)
        .collect();
    for name in properties.keys().filter(|name| *name != PURPOSE) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    if properties.contains_key(PURPOSE) {
        names.push(PURPOSE.to_owned());
    }
    names
}

/// A tool's name as an identifier, as the guest makes it.
fn python_name(name: &str) -> String {
    const KEYWORDS: &[&str] = &[
        "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class",
        "continue", "def", "del", "elif", "else", "except", "finally", "for", "from", "global",
        "if", "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return",
        "try", "while", "with", "yield",
    ];
    let letter = |c: char| {
        if c == '_' || c.is_alphanumeric() {
            c
        } else {
            '_'
        }
    };
    let mut text: String = name.chars().map(letter).collect();
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        text.insert(0, '_');
    }
    if KEYWORDS.contains(&&text[..]) {
        text.push('_');
    }
    text
}

fn of_cell(cell: &CellSummary) -> String {
    let mut extras = String::new();
    if let Some(ended) = &cell.ended {
        if ended.result.status == Status::Failure {
            let error = ended.result.error.as_ref();
            let name = error.map_or("Exception", |error| &error.type_);
            extras.push_str(&format!(", fails={}", of_text(name)));
        }
        if !ended.inputs.is_empty() {
            let inputs: Vec<String> = ended.inputs.iter().map(of_input).collect();
            extras.push_str(&format!(", inputs=[{}]", inputs.join(", ")));
        }
        if !ended.calls.is_empty() {
            let calls: Vec<String> = ended.calls.iter().map(of_call).collect();
            extras.push_str(&format!(", calls=[\n{}]", calls.concat()));
        }
    }
    let source = of_source(&cell.cell.code);
    format!("\nsession.cell({}, {source}{extras})\n", cell.number)
}

fn of_input(input: &RecordedInput) -> String {
    match &input.answer {
        InputAnswer::Text(text) => {
            let line = text.strip_suffix('\n').unwrap_or(text);
            format!("({}, None)", of_text(line))
        }
        InputAnswer::Error(reason) => format!("(None, {})", of_text(reason)),
    }
}

fn of_call(call: &RecordedCall) -> String {
    let not_there = || ("error", of_text("its answer is not in the journal"));
    let (kind, answer) = match &call.outcome {
        CallOutcome::Result(value) => ("result", of_value(value)),
        CallOutcome::Error(message) => ("error", of_text(message)),
        CallOutcome::NotKept(_) | CallOutcome::Unanswered => not_there(),
    };
    let arguments = of_value(&Value::Object(call.arguments.to_map()));
    format!(
        "    ({}, {arguments}, \"{kind}\", {answer}),\n",
        of_text(&call.name)
    )
}

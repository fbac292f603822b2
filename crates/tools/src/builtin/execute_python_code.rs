//! The tool `execute_python_code`: runs a cell.

use super::observation::text_for_model;
use crate::names::{CODE_ARGUMENT, EXECUTE_PYTHON_CODE, INSTALL_PACKAGES, TIMEOUT_ARGUMENT};
use crate::{
    Call, Caller, CellOutcome, Context, Effects, Failure, NO_TIME_LIMIT, Output, Part, Tool,
    ToolError, Uses,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_env::Requirements;
use cellblock_protocol::{Cell, CellResult, ForModel, Limits, MimeBundle, duration_of_seconds};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::PoisonError;
use std::time::Duration;

/// Runs Python code in a session that lives on between calls.
#[derive(Debug)]
pub struct ExecutePythonCodeTool;

/// Runs Python code in a live session and returns its output, its value, figures and new files.
///
/// State persists, imports too. To see a result, print it or make it the last expression; plt.show() shows plots. After an error, what
/// ran before it is kept; after a time-out or a crash, nothing is. Ask for missing packages with install_packages,
/// where that is offered. Host tools are functions: see help(tools).
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ExecutePythonCode {
    /// Top-level await works.
    python_code_snippet: String,
    /// Seconds.
    // Without a value the session's own limit is used, which is the default one unless a person chose another.
    #[serde(default)]
    #[schemars(with = "f64", extend("exclusiveMinimum" = 0, "default" = Limits::DEFAULT.wall.as_secs_f64()))]
    timeout: Option<f64>,
}

impl Tool for ExecutePythonCodeTool {
    type Parameters = ExecutePythonCode;
    type Output = Output;

    fn uses(&self) -> Uses {
        Uses::Interpreter
    }

    fn effects(&self) -> Effects {
        Effects::Code {
            argument: CODE_ARGUMENT,
        }
    }

    /// The cell has a time limit of its own, which does not run while a person is asked.
    fn time_limit(&self) -> Option<Duration> {
        Some(NO_TIME_LIMIT)
    }

    async fn call(&self, code: ExecutePythonCode, context: &Context) -> Result<Output, ToolError> {
        let mut cell = Cell::new(code.python_code_snippet);
        cell.timeout = code
            .timeout
            .map(|seconds| duration_of_seconds(TIMEOUT_ARGUMENT, seconds))
            .transpose()
            .map_err(|error| ToolError::new(error.to_string()))?;
        execute(cell, context).await
    }
}

/// Runs a cell: what a call of the tool does, for callers in Rust that have the cell already.
pub(crate) async fn execute(mut cell: Cell, context: &Context) -> Result<Output, ToolError> {
    if let Some(wanted) = packages_in_header(&cell.code)? {
        install(wanted, context).await?;
    }
    let time_limit = match cell.timeout {
        Some(limit) => limit,
        None => context.runner().session().await?.time_limit(),
    };
    cell.timeout = Some(time_limit);
    let code = cell.code.clone();
    let outcome = context.run_cell(cell).await?;
    output(outcome, &code, time_limit, context).await
}

/// The packages that the header of the code names (PEP 723); `None` for a header without packages.
fn packages_in_header(code: &str) -> Result<Option<Vec<String>>, ToolError> {
    let found =
        Requirements::from_script(code).map_err(|error| ToolError::new(error.to_string()))?;
    let packages = found.map(|found| found.packages);
    Ok(packages.filter(|packages| !packages.is_empty()))
}

/// Installs packages with the tool `install_packages`, so that a person is asked. Where the tool is not
/// registered, the code runs without them.
async fn install(packages: Vec<String>, context: &Context) -> Result<(), ToolError> {
    let runner = context.runner();
    if runner.registry().get(INSTALL_PACKAGES).is_none() {
        return Ok(());
    }
    let call = Call {
        id: context.call().to_owned(),
        name: INSTALL_PACKAGES.to_owned(),
        arguments: json!({ "packages": packages }).into(),
        caller: Caller::Code,
    };
    // Boxed, because that tool may call this one.
    match Box::pin(runner.call(call)).await.outcome {
        Ok(_) => Ok(()),
        Err(failure) => Err(ToolError::new(failure.to_string())),
    }
}

async fn output(
    outcome: CellOutcome,
    code: &str,
    time_limit: Duration,
    context: &Context,
) -> Result<Output, ToolError> {
    let CellOutcome {
        result,
        notes,
        attachments,
    } = outcome;
    let options = ForModel {
        locale: context.runner().locale(),
        time_limit: Some(time_limit),
        ..ForModel::default()
    };
    let session = context.runner().current_session().await;
    let mut text = text_for_model(&result, code, &options, session).await;
    for note in notes {
        text.push('\n');
        text.push_str(&note);
    }
    let mut parts = vec![Part::Text(text)];
    parts.extend(result.displays.iter().filter_map(picture));
    parts.extend(result.value.iter().filter_map(|value| picture(&value.mime)));
    parts.extend(attachments);
    let result = without_pictures(result);
    let structured = match &context.result_slot {
        Some(slot) => {
            let (bytes, limit) = (result_bytes(&result), context.runner().limits().max_bytes);
            if bytes > limit {
                let too_large = Failure::TooLarge {
                    tool: EXECUTE_PYTHON_CODE.to_owned(),
                    what: "result",
                    bytes,
                    limit,
                };
                return Err(ToolError::new(too_large.to_string()));
            }
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            None
        }
        None => Some(serde_json::to_value(result)?),
    };
    Ok(Output { structured, parts })
}

/// The picture of a bundle, if it has one.
fn picture(bundle: &MimeBundle) -> Option<Part> {
    let kinds = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    let (mime, text) = kinds
        .iter()
        .find_map(|mime| Some((*mime, bundle.text(mime)?)))?;
    Some(Part::blob(mime, STANDARD.decode(text).ok()?))
}

/// The result for programs. Pictures are parts of the output, so they are left out here.
fn without_pictures(mut result: CellResult) -> CellResult {
    for bundle in result
        .displays
        .iter_mut()
        .chain(result.value.iter_mut().map(|value| &mut value.mime))
    {
        bundle.retain(|mime, _| !mime.starts_with("image/"));
    }
    result
}

/// About how many bytes a result takes.
fn result_bytes(result: &CellResult) -> usize {
    let bundles = result.displays.iter();
    let bundles = bundles.chain(result.value.iter().map(|value| &value.mime));
    result.stdout.len()
        + result.stderr.len()
        + result.output.len()
        + bundles.map(MimeBundle::bytes).sum::<usize>()
}

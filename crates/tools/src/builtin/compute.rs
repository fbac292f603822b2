//! One expression, exactly.

use crate::{Context, Effects, Json, Tool, ToolError, Uses};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Evaluates one Python expression in a throw-away copy of the session.
#[derive(Debug)]
pub struct ComputeTool;

/// Evaluates one Python expression and returns its value as text. Use it for everything that must be exact to the character: reversing or
/// counting letters, arithmetic, dates, sorting, hashes. Nothing it does changes the session, whose variables it can read.
///
/// Available without import: the usual builtins and the public names of math, re, json, datetime, decimal, fractions, statistics,
/// itertools, functools, collections, string, random, textwrap, unicodedata, base64 and hashlib. The value of the last call is
/// last_result, earlier ones are results[n]. Statements and imports are refused: use execute_python_code for them.
/// Examples: 'NcS9euQa'[::-1] and sum(map(int, str(2**100))).
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Compute {
    /// One expression.
    code: String,
    /// What is computed, in a few words.
    description: String,
}

/// Exactly one of the two is not null.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Computed {
    /// The value as text.
    result: Option<String>,
    /// Why there is none.
    error: Option<String>,
}

impl Tool for ComputeTool {
    type Parameters = Compute;
    type Output = Json<Computed>;

    fn aliases(&self) -> Vec<String> {
        vec!["compute_with_python".to_owned()]
    }

    fn uses(&self) -> Uses {
        Uses::Interpreter
    }

    fn effects(&self) -> Effects {
        Effects::Code { argument: "code" }
    }

    async fn call(&self, compute: Compute, context: &Context) -> Result<Json<Computed>, ToolError> {
        let session = context.workbench().session().await?;
        let computed = session.compute(&compute.code, &compute.description).await?;
        Ok(Json(Computed {
            result: computed.result,
            error: computed.error,
        }))
    }
}

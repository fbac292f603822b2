//! Tools for tests, and a runtime to call them on.

use cellblock_protocol::{Cell, Locale, SessionOptions, Status};
use cellblock_test_support::open_session;
pub use cellblock_test_support::wait;
use cellblock_tools::{
    Answer, Arguments, Call, Context, Json, Output, Registry, RegistryBuilder, SessionFuture, Tool,
    ToolError, ToolRunner,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A tool runner with one tool.
pub fn runner(tool: impl Tool) -> ToolRunner {
    ToolRunner::new(Registry::builder().tool(tool).build().unwrap())
}

/// Calls the only tool of a tool runner as a person would.
pub fn call(runner: &ToolRunner, arguments: impl Into<Arguments>) -> Answer {
    let name = runner.registry().names()[0].to_owned();
    wait(runner.call(Call::by_user(name, arguments)))
}

/// The message of a call that must fail.
pub fn failure(runner: &ToolRunner, arguments: impl Into<Arguments>) -> String {
    call(runner, arguments).outcome.unwrap_err().to_string()
}

/// The result of a call that must not.
pub fn output(runner: &ToolRunner, arguments: impl Into<Arguments>) -> Output {
    call(runner, arguments).outcome.unwrap()
}

/// The weather of the next days.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "they are read by Debug")]
pub struct WeatherQuery {
    /// Where.
    pub city: String,
    /// How many days.
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 14))]
    pub days: u32,
    /// The scale.
    #[serde(default)]
    pub unit: Unit,
    /// Further places.
    pub near: Option<Vec<Place>>,
}

fn three() -> u32 {
    3
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub enum Unit {
    #[default]
    C,
    F,
}

/// A place on a map.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "they are read by Debug")]
#[serde(deny_unknown_fields)]
pub struct Place {
    pub x: f64,
    pub y: f64,
    pub exact: Option<bool>,
}

/// What comes back.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Weather {
    pub text: String,
    pub days: u32,
}

pub struct WeatherQueryTool;

impl Tool for WeatherQueryTool {
    type Parameters = WeatherQuery;
    type Output = Json<Weather>;

    async fn call(&self, query: WeatherQuery, _: &Context) -> Result<Json<Weather>, ToolError> {
        Ok(Json(Weather {
            text: format!("{:?}", query),
            days: query.days,
        }))
    }
}

/// Makes sessions with the standard library.
pub fn sessions() -> impl Fn() -> SessionFuture + Send + Sync + 'static {
    sessions_with(SessionOptions::default())
}

/// Makes sessions like this.
pub fn sessions_with(
    options: SessionOptions,
) -> impl Fn() -> SessionFuture + Send + Sync + 'static {
    move || {
        let options = options.clone();
        Box::pin(async move { Ok(open_session(options).await?) })
    }
}

/// The built-in tools over a session, with more beside them.
pub fn python_with(more: impl FnOnce(RegistryBuilder) -> RegistryBuilder) -> ToolRunner {
    let registry = more(Registry::builder().built_in()).build().unwrap();
    ToolRunner::builder(registry)
        .open_sessions(sessions())
        .build()
}

/// The built-in tools over a session.
pub fn python() -> ToolRunner {
    python_with(|registry| registry)
}

/// Runs code through the tool for it, and returns what a model reads.
pub fn execute(runner: &ToolRunner, code: &str) -> String {
    answer(
        runner,
        "execute_python_code",
        json!({"python_code_snippet": code}),
    )
    .for_model(Locale::En, 20_000)
}

/// Calls a tool as a person would.
pub fn answer(runner: &ToolRunner, name: &str, arguments: impl Into<Arguments>) -> Answer {
    wait(runner.call(Call::by_user(name, arguments)))
}

/// What a model reads of a call.
pub fn text(runner: &ToolRunner, name: &str, arguments: impl Into<Arguments>) -> String {
    answer(runner, name, arguments).for_model(Locale::En, 20_000)
}

/// Runs code that must succeed, and returns what it printed.
pub fn printed(runner: &ToolRunner, code: &str) -> String {
    let ran = wait(runner.run_cell(Cell::new(code), None)).unwrap();
    assert_eq!(ran.result.status, Status::Success, "{:?}", ran.result.error);
    ran.result.stdout
}

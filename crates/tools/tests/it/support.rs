//! Tools for tests, and a runtime to call them on.

use cellblock_tools::{
    Answer, Arguments, Call, Context, Json, Output, Registry, Tool, ToolError, Workbench,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
});

/// Waits for anything that is asynchronous, but not for ever.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    RUNTIME
        .block_on(async { tokio::time::timeout(Duration::from_secs(60), future).await })
        .expect("it did not end within a minute")
}

/// A workbench with one tool.
pub fn bench(tool: impl Tool) -> Workbench {
    Workbench::new(Registry::builder().tool(tool).build().unwrap())
}

/// Calls the only tool of a workbench as a person would.
pub fn call(bench: &Workbench, arguments: impl Into<Arguments>) -> Answer {
    let name = bench.registry().names()[0].to_owned();
    wait(bench.call(Call::by_user(name, arguments)))
}

/// The message of a call that must fail.
pub fn failure(bench: &Workbench, arguments: impl Into<Arguments>) -> String {
    call(bench, arguments).outcome.unwrap_err().to_string()
}

/// The result of a call that must not.
pub fn output(bench: &Workbench, arguments: impl Into<Arguments>) -> Output {
    call(bench, arguments).outcome.unwrap()
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

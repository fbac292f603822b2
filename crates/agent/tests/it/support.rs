//! Sessions, facts and models for tests.

use cellblock::env::Dirs;
use cellblock::{Host, Locale, Preload, PythonChoice, Seed, SessionOptions};
use cellblock_agent::{Facts, LocalExecutor};
use cellblock_model::{Capabilities, Reply};
use cellblock_tools::{Context, Registry, RegistryBuilder, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;
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
        .block_on(async { tokio::time::timeout(Duration::from_secs(90), future).await })
        .expect("it did not end in time")
}

static HOST: LazyLock<Host> = LazyLock::new(|| {
    let host = Host::builder().python(PythonChoice::StandardLibrary);
    host.preload(Preload::None).dirs(dirs()).build().unwrap()
});

/// The user's cache, and workspaces of this test program, removed by the next one.
fn dirs() -> Dirs {
    let name = |process: &str| format!("cellblock-agent-tests-{process}");
    for entry in std::fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let process = file.strip_prefix(&name(""));
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    Dirs {
        state: std::env::temp_dir().join(name(&std::process::id().to_string())),
        ..Dirs::from_process().unwrap()
    }
}

/// Sessions with the standard library.
pub fn python() -> LocalExecutor {
    LocalExecutor::new(|seed: Seed| {
        Box::pin(async move {
            let options = SessionOptions {
                seed,
                ..SessionOptions::default()
            };
            Ok(HOST.open(options).await?)
        })
    })
}

/// What a format knows, with the built-in tools.
pub fn facts() -> Facts {
    static FACTS: LazyLock<Facts> = LazyLock::new(|| facts_with(|registry| registry));
    FACTS.clone()
}

/// The same with more tools.
pub fn facts_with(more: impl FnOnce(RegistryBuilder) -> RegistryBuilder) -> Facts {
    Facts {
        registry: more(Registry::builder().built_in()).build().unwrap(),
        locale: Locale::En,
        capabilities: Capabilities::default(),
        dependencies: vec!["numpy".to_owned()],
        workspace: "/workspace".to_owned(),
        answer_schema: None,
    }
}

/// A reply that reached the token limit.
pub fn cut_off(text: &str) -> Reply {
    Reply {
        finish: cellblock_model::FinishReason::Length,
        ..Reply::text(text)
    }
}

/// Gives the secret.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetSecret {}

pub struct GetSecretTool;

impl Tool for GetSecretTool {
    type Parameters = GetSecret;
    type Output = String;

    async fn call(&self, _: GetSecret, _: &Context) -> Result<String, ToolError> {
        Ok("NcS9euQa".to_owned())
    }
}

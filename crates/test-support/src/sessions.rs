//! Sessions with the standard library alone: one zygote for all tests of a program.

use crate::{test_directory, wait};
use cellblock_protocol::SessionOptions;
use cellblock_session::{Error, Preload, Python, Runtime, RuntimeBuilder, Session};
use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

/// The Python of the system, or `CELLBLOCK_PYTHON`. A Python in root's home would be out of reach
/// where a session has no view of its own.
pub fn python() -> PathBuf {
    env::var_os("CELLBLOCK_PYTHON").map_or_else(|| "/usr/bin/python3".into(), PathBuf::from)
}

/// A runtime to be changed and started by the test itself.
pub fn runtime_builder() -> RuntimeBuilder {
    let directory = test_directory();
    let (state, cache) = (directory.join("state"), directory.join("cache"));
    Runtime::builder(interpreter(), state, cache).preload(Preload::None)
}

/// The runtime that all tests of a program share.
pub fn session_runtime() -> &'static Runtime {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| wait(runtime_builder().start()).unwrap());
    &RUNTIME
}

/// Opens a session in the shared runtime. The runtime is started by the first call.
pub async fn open_session(options: SessionOptions) -> Result<Session, Error> {
    let runtime = tokio::task::spawn_blocking(session_runtime);
    runtime.await.unwrap().open(options).await
}

/// [`python`] without its packages.
pub fn interpreter() -> Python {
    let code = "import os, sys; print(os.path.realpath(sys.executable)); print(sys.base_prefix)";
    let output = Command::new(python()).args(["-I", "-c", code]).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let paths: Vec<PathBuf> = text.lines().map(PathBuf::from).collect();
    Python {
        executable: paths[0].clone(),
        prefixes: vec![paths[1].clone()],
        packages: false,
        font_cache: None,
    }
}

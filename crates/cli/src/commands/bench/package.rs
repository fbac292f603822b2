//! What the Python package adds: measured by the package itself, with this program as its binary.

use anyhow::{Context as _, ensure};
use std::path::PathBuf;
use tokio::process::Command;

/// The variable that names a Python which has the package; without it, `python3` of the `PATH` is asked.
const PYTHON: &str = "CELLBLOCK_BENCH_PYTHON";

/// A Python that has the package, if there is one.
pub(crate) async fn python_with_package() -> Option<PathBuf> {
    let python = std::env::var_os(PYTHON).map_or_else(|| "python3".into(), PathBuf::from);
    let found = Command::new(&python)
        .args(["-c", "import cellblock._bench"])
        .output()
        .await;
    found
        .is_ok_and(|found| found.status.success())
        .then_some(python)
}

/// The samples of one measurement of `cellblock._bench`.
pub(crate) async fn samples(
    python: &PathBuf,
    name: &str,
    repetitions: usize,
) -> anyhow::Result<Vec<f64>> {
    let output = Command::new(python)
        .args(["-m", "cellblock._bench", name, &repetitions.to_string()])
        .env("CELLBLOCK_BIN", std::env::current_exe()?)
        .output()
        .await
        .with_context(|| format!("{} cannot be started", python.display()))?;
    ensure!(
        output.status.success(),
        "measuring the Python package failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout)
        .context("the Python package printed something else than its samples")
}

//! The folders of `examples/`: each is played from its recording, and its checks hold. The replies are fixed, the code really runs.

use std::path::{Path, PathBuf};
use std::process::Command;

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut examples: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    examples.retain(|example| example.join("suite.toml").is_file());
    examples.sort();
    examples
}

#[test]
fn every_example_gives_its_answer_again() {
    let examples = examples();
    assert!(examples.len() >= 2, "only {examples:?}");
    let mut failed = Vec::new();
    for example in examples {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cellblock"));
        command
            .args(["eval", "--format", "markdown", "--min-score", "1"])
            .arg(example.join("suite.toml"))
            .arg("--replay")
            .arg(example.join("recordings"));
        if example.join("tools").is_dir() {
            command.arg("--tools-dir").arg(example.join("tools"));
        }
        let output = command.output().unwrap();
        if !output.status.success() {
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            failed.push(format!("{}: {told}", example.display()));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_example_says_how_to_run_it() {
    for example in examples() {
        let page = std::fs::read_to_string(example.join("README.md")).unwrap();
        assert!(page.contains("cellblock eval"), "{}", example.display());
        for question in ["question.en.md", "question.zh.md"] {
            assert!(example.join(question).is_file(), "{}", example.display());
        }
    }
}

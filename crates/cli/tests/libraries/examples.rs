//! The folders of `examples/`: each is played from its recording by the command of its page, and its checks hold. The replies are
//! fixed, the code really runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The folders that a person is told of.
const EXAMPLES: [&str; 9] = [
    "databases",
    "emergency",
    "metro",
    "scenic-spots",
    "smoke",
    "streets",
    "tour",
    "weather-tool",
    "web-page",
];

/// A folder that needs no model. `tests/cluster` runs it.
const CLUSTER: &str = "cluster";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page_of(example: &str) -> String {
    let path = repository().join("examples").join(example);
    fs::read_to_string(path.join("README.md")).unwrap()
}

/// The first command of a page: the one that plays the recording.
fn first_command(page: &str) -> &str {
    let block = page.split("```").nth(1).unwrap();
    let lines: Vec<&str> = block.trim().lines().collect();
    assert_eq!(lines.len(), 1, "the first block is one command: {block}");
    lines[0]
}

/// The picture that a page shows.
fn picture_of(page: &str) -> &str {
    let (_, shown) = page.rsplit_once("![").unwrap();
    let (_, target) = shown.split_once("](").unwrap();
    target.split(')').next().unwrap()
}

#[test]
fn every_example_gives_its_answer_again_by_the_command_of_its_page() {
    let binary = Path::new(env!("CARGO_BIN_EXE_cellblock"));
    let mut path = binary.parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(env::var_os("PATH").unwrap());
    let mut failed = Vec::new();
    for example in EXAMPLES {
        let out = tempfile::tempdir().unwrap();
        let page = page_of(example);
        let command = first_command(&page);
        assert!(command.ends_with(" --out out"), "{command}");
        let command = command.replace(" --out out", " --min-score 1 --out \"$OUT\"");
        let output = Command::new("sh")
            .args(["-c", &command])
            .current_dir(repository())
            .env("PATH", &path)
            .env("OUT", out.path())
            .output()
            .unwrap();
        if !output.status.success() {
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            failed.push(format!("{example}: {told}"));
            continue;
        }
        let name = Path::new(picture_of(&page)).file_name().unwrap();
        let is_made = files_below(out.path())
            .iter()
            .any(|path| path.file_name() == Some(name));
        if !is_made {
            failed.push(format!("{example}: the run made no {name:?}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
}

#[test]
fn every_example_has_its_questions_and_shows_its_picture() {
    for example in EXAMPLES {
        let folder = repository().join("examples").join(example);
        let page = page_of(example);
        assert!(page.contains("--model "), "{example}");
        for file in ["question.en.md", "question.zh.md", picture_of(&page)] {
            assert!(folder.join(file).is_file(), "{example}: {file}");
        }
    }
}

#[test]
fn no_folder_of_examples_is_forgotten() {
    let entries = fs::read_dir(repository().join("examples")).unwrap();
    let mut found: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != CLUSTER)
        .collect();
    found.sort();
    assert_eq!(found, EXAMPLES);
}

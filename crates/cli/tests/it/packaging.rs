//! The recipes in `packaging`: the commands that they start are commands of this program.

use crate::support::{Place, signal};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");

#[test]
fn the_unit_of_systemd_starts_a_server() {
    let unit = recipe("cellblock.service");
    let start = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/cellblock "));
    serves(start.unwrap().split_whitespace());
}

#[test]
fn the_recipe_of_a_container_starts_a_server() {
    let recipe = recipe("Containerfile");
    let start = recipe
        .lines()
        .find_map(|line| line.strip_prefix("ENTRYPOINT "));
    let words: Vec<String> = serde_json::from_str(start.unwrap()).unwrap();
    assert_eq!(words[0], "cellblock");
    serves(words[1..].iter().map(String::as_str));
}

#[test]
fn systemd_finds_no_fault_in_the_unit_where_systemd_is() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("cellblock.service");
    // The program need not be installed.
    let unit = recipe("cellblock.service").replace("/usr/local/bin/cellblock", "/bin/sh");
    fs::write(&path, unit).unwrap();
    let verify = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&path)
        .output();
    let Ok(verify) = verify else {
        return;
    };
    let said = String::from_utf8_lossy(&verify.stderr);
    let about_it: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("cellblock"))
        .collect();
    assert!(about_it.is_empty(), "{said}");
}

fn recipe(name: &str) -> String {
    fs::read_to_string(format!("{DIRECTORY}/{name}")).unwrap()
}

/// Starts a server with the options of a recipe, but its own data and port, and stops it.
fn serves<'a>(words: impl Iterator<Item = &'a str>) {
    let place = Place::new();
    let data = place.path().join("data").display().to_string();
    let mut options: Vec<&str> = words.collect();
    for (option, value) in [("--data", data.as_str()), ("--listen", "127.0.0.1:0")] {
        match options.iter().position(|word| *word == option) {
            Some(at) => options[at + 1] = value,
            None => options.extend([option, value]),
        }
    }
    let mut command = place.command(options);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stderr.take().unwrap());
    let mut lines = said.lines().map_while(Result::ok);
    let is_serving = lines.any(|line| line.contains("serving at http://127.0.0.1:"));
    assert!(is_serving, "{command:?} ended before it served");
    signal(&child, "TERM");
    // Read on, so that the last words of the server have a reader.
    lines.for_each(drop);
    assert!(child.wait().unwrap().code().is_some());
}

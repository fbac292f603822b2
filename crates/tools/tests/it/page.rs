//! The code of `docs/tools.md` is built in a crate of its own, and run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

#[test]
fn the_tool_of_the_page_can_be_built_and_called() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap();
    let page = fs::read_to_string(workspace.join("docs/tools.md")).unwrap();
    let blocks: Vec<&str> = page
        .split("```rust\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    let manifest = page
        .split("```toml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let manifest = manifest.replace("../cellblock", workspace.to_str().unwrap());
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("src")).unwrap();
    fs::write(
        directory.path().join("Cargo.toml"),
        format!("[workspace]\n\n{manifest}"),
    )
    .unwrap();
    fs::write(directory.path().join("src/main.rs"), blocks.concat()).unwrap();
    // The same versions as here, so that what is compiled already is used again.
    fs::copy(
        workspace.join("Cargo.lock"),
        directory.path().join("Cargo.lock"),
    )
    .unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--offline"])
        .env("CARGO_TARGET_DIR", target_directory())
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let promised = page
        .split("```console\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let (command, printed) = promised.split_once('\n').unwrap();
    assert_eq!(command, "$ cargo run");
    assert_eq!(String::from_utf8_lossy(&output.stdout), printed);
}

/// Where this test was built.
fn target_directory() -> PathBuf {
    let program = env::current_exe().unwrap();
    program.ancestors().nth(3).unwrap().to_owned()
}

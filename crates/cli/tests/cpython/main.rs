//! CPython's own tests, each outside and inside of a session: what works outside works inside, but for a list of differences, each with its reason.
//!
//! The tests are those of Debian's package for `/usr/bin/python3`. This takes long, so it runs only with `CELLBLOCK_LONG`.
//!
//! | variable | effect |
//! | --- | --- |
//! | `CELLBLOCK_LONG` | the tests run |
//! | `CELLBLOCK_CPYTHON_MODULES` | only these modules, such as `test_os,test_posix` |
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on says so by a panic"
)]

use serde::Deserialize;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const PYTHON: &str = "/usr/bin/python3";
const CELLBLOCK: &str = env!("CARGO_BIN_EXE_cellblock");
/// The seconds that one module may take, outside and inside.
const MAX_SECONDS: u32 = 300;
/// The user of both runs, where the test is run by root: root may do what no session may.
const ORDINARY_USER: u32 = 65_534;

#[derive(Deserialize)]
struct Expected {
    /// Modules that are run.
    modules: Vec<String>,
    difference: Vec<Difference>,
}

/// Tests that end otherwise inside.
#[derive(Deserialize)]
struct Difference {
    /// The beginning of the tests' names.
    tests: String,
    #[expect(dead_code, reason = "for the reader of the list")]
    reason: String,
}

/// How the tests of a module ended, by their names.
type Outcomes = BTreeMap<String, String>;

#[test]
fn what_works_in_python_works_in_a_session() {
    if env::var_os("CELLBLOCK_LONG").is_none() {
        return;
    }
    let expected: Expected = toml::from_str(include_str!("expected.toml")).unwrap();
    let only = env::var("CELLBLOCK_CPYTHON_MODULES").ok();
    let modules = match &only {
        Some(names) => names.split(',').map(str::to_owned).collect(),
        None => expected.modules,
    };
    let place = Place::new();
    let (mut same, mut unexpected) = (0, Vec::new());
    for module in modules {
        let outside = place.run_outside(&module);
        let inside = place.run_inside(&module);
        for (test, outcome) in outside.iter().filter(|(_, outcome)| *outcome == "ok") {
            let found = inside.get(test).map_or("it did not run", String::as_str);
            if found == outcome {
                same += 1;
            } else if !expected
                .difference
                .iter()
                .any(|known| test.starts_with(&known.tests))
            {
                println!("{test}: {found}");
                unexpected.push(test.clone());
            }
        }
        if outside.is_empty() {
            println!("{module}: not compared, it crashed or took too long outside");
            continue;
        }
        println!(
            "{module}: {} outside, {} inside",
            outside.len(),
            inside.len()
        );
    }
    println!("{same} tests end as outside");
    assert!(
        unexpected.is_empty(),
        "{} differ: {unexpected:#?}",
        unexpected.len()
    );
    assert!(same > 0, "no test has run");
}

/// A workspace with the tests in it.
struct Place {
    directory: TempDir,
}

impl Place {
    /// Brings the tests: Debian keeps them in a package of their own.
    fn new() -> Place {
        let directory = tempfile::tempdir().unwrap();
        let work = directory.path();
        let version = output(
            Command::new(PYTHON).args(["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]),
        );
        let package = format!("libpython{}-testsuite", version.trim());
        output(
            Command::new("apt-get")
                .args(["download", &package])
                .current_dir(work),
        );
        let file = fs::read_dir(work).unwrap().next().unwrap().unwrap().path();
        let unpacked = work.join("unpacked");
        output(Command::new("dpkg-deb").arg("-x").arg(&file).arg(&unpacked));
        let tests = format!("usr/lib/python{}/test", version.trim());
        // What the interpreter's own package has of it: the helpers.
        fs::create_dir(work.join("cpython")).unwrap();
        output(
            Command::new("cp")
                .arg("-r")
                .arg(format!("/{tests}"))
                .arg(work.join("cpython/test")),
        );
        output(
            Command::new("cp")
                .arg("-rT")
                .arg(unpacked.join(&tests))
                .arg(work.join("cpython/test")),
        );
        fs::remove_dir_all(&unpacked).unwrap();
        fs::remove_file(&file).unwrap();
        fs::write(work.join("outcomes.py"), include_str!("outcomes.py")).unwrap();
        if is_root() {
            let owner = format!("{ORDINARY_USER}:{ORDINARY_USER}");
            output(Command::new("chown").arg("-R").arg(owner).arg(work));
        }
        Place { directory }
    }

    fn run_outside(&self, module: &str) -> Outcomes {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", &MAX_SECONDS.to_string()]);
        if is_root() {
            let user = ORDINARY_USER.to_string();
            command.args([
                "setpriv",
                "--reuid",
                &user,
                "--regid",
                &user,
                "--clear-groups",
            ]);
        }
        command.args([PYTHON, "outcomes.py", module]);
        self.outcomes(command.env("HOME", self.directory.path()))
    }

    fn run_inside(&self, module: &str) -> Outcomes {
        let mut command = Command::new(CELLBLOCK);
        command.args(["exec", "--stdlib", "--python", PYTHON, "--workspace", "."]);
        command.args([
            "--timeout",
            &MAX_SECONDS.to_string(),
            "outcomes.py",
            "--",
            module,
        ]);
        self.outcomes(&mut command)
    }

    fn outcomes(&self, command: &mut Command) -> Outcomes {
        let work = self.directory.path();
        let file = work.join("outcomes.json");
        let _ = fs::remove_file(&file);
        let quiet = command
            .current_dir(work)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        quiet.status().unwrap();
        read_outcomes(&file)
    }
}

/// A module that crashed or took too long has none.
fn read_outcomes(file: &Path) -> Outcomes {
    let text = fs::read_to_string(file).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata("/proc/self").unwrap().uid() == 0
}

fn output(command: &mut Command) -> String {
    let ended = command.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{command:?}: {said}");
    String::from_utf8(ended.stdout).unwrap()
}

//! Searches on machines whose interpreters are small scripts.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::Command,
};

use super::*;

/// A machine that has only the programs that a test puts there.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for directory in ["bin", "home"] {
            fs::create_dir(root.path().join(directory)).unwrap();
        }
        Self { root }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    /// A program on `PATH`.
    fn program(&self, name: &str, script: &str) -> PathBuf {
        let path = self.path("bin").join(name);
        let _ = fs::remove_file(&path);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// A shim in front of the real Python that counts its starts.
    fn shim(&self, name: &str) -> PathBuf {
        let real = real_python();
        let starts = self.path("starts");
        let script = format!("echo start >>{starts:?}; exec {real:?} \"$@\"");
        self.program(name, &script)
    }

    fn starts(&self) -> usize {
        let starts = fs::read_to_string(self.path("starts")).unwrap_or_default();
        starts.lines().count()
    }

    fn search(&self) -> Search {
        let variables = Variables::default()
            .with("HOME", self.path("home"))
            .with("PATH", format!("{}:relative", self.path("bin").display()));
        let dirs = Dirs::new(&variables).unwrap();
        let mut search = Search::new(variables, &dirs).probe_timeout(Duration::from_secs(5));
        search.fallback_paths.clear();
        search
    }
}

fn real_python() -> PathBuf {
    Search::from_process().unwrap().find().unwrap().executable
}

fn version(text: &str, implementation: &str) -> String {
    format!(
        "echo '{{\"version\": [{}], \"implementation\": \"{implementation}\"}}'",
        text.replace('.', ", ")
    )
}

fn tried(error: Error) -> Vec<String> {
    let Error::NoInterpreter { tried } = error else {
        panic!("{error}");
    };
    tried.iter().map(ToString::to_string).collect()
}

#[test]
fn the_interpreter_behind_a_shim_is_found() {
    let machine = Machine::new();
    machine.shim("python3");
    let found = machine.search().find().unwrap();
    assert_eq!(found.executable, real_python());
    assert!(found.executable.is_absolute());
    assert_eq!(
        fs::canonicalize(&found.executable).unwrap(),
        found.executable
    );
    assert!(found.stdlib.join("os.py").exists());
    assert!(
        found
            .directories()
            .iter()
            .any(|d| found.stdlib.starts_with(d))
    );
}

#[test]
fn the_interpreter_below_a_virtual_environment_is_found() {
    let machine = Machine::new();
    let real = real_python();
    for (name, how) in [("links", "--symlinks"), ("copies", "--copies")] {
        let made = Command::new(&real)
            .args(["-m", "venv", "--without-pip", how])
            .arg(machine.path(name))
            .status()
            .unwrap();
        assert!(made.success());
        let search = machine
            .search()
            .explicit(machine.path(name).join("bin/python"));
        assert_eq!(search.find().unwrap().executable, real, "{name}");
    }
}

#[test]
fn python3_comes_before_any_number() {
    let machine = Machine::new();
    machine.program("python3.14", "exit 1");
    machine.shim("python3");
    machine.search().find().unwrap();
    assert!(machine.starts() > 0);
}

#[test]
fn unusable_candidates_are_skipped_and_each_is_named_with_its_reason() {
    let machine = Machine::new();
    let bin = machine.path("bin");
    machine.program("python3", &version("3.9.18", "cpython"));
    let python_2 = version("2.7.18", "cpython");
    let refuse = "echo 'Unbekannte Option: -I' >&2; exit 2";
    machine.program(
        "python3.14",
        &format!("case $1 in -I) {refuse};; esac; {python_2}"),
    );
    machine.program("python3.13", &version("3.10.14", "pypy"));
    machine.program("python3.12", "echo boom; echo 'bad luck' >&2; exit 3");
    machine.program("python3.11", "kill -SEGV $$");
    std::os::unix::fs::symlink("/nowhere", bin.join("python3.10")).unwrap();
    machine.program("python", "echo hello");

    let bin = bin.display();
    assert_eq!(
        tried(machine.search().find().unwrap_err()),
        [
            format!("{bin}/python3: 3.9.18 is too old, 3.10 or newer is needed"),
            format!("{bin}/python3.14: 2.7.18 is too old, 3.10 or newer is needed"),
            format!("{bin}/python3.13: it is pypy; only CPython can be used"),
            format!("{bin}/python3.12: did not start: exit 3, bad luck"),
            format!("{bin}/python3.11: did not start: killed by signal 11"),
            format!("{bin}/python3.10: there is no such file"),
            format!("{bin}/python: it ran, but did not answer as a Python does"),
        ]
    );

    machine.shim("python");
    machine.search().find().unwrap();
}

#[test]
fn a_free_threaded_python_is_refused_by_name() {
    let machine = Machine::new();
    let real = real_python();
    let claim = r#"/bin/sed 's/"free_threaded": false/"free_threaded": true/'"#;
    let path = machine.program("python3", &format!("{real:?} \"$@\" | {claim}"));
    let refused = machine.search().explicit(path).find().unwrap_err();
    assert!(
        refused.to_string().contains("is a free-threaded build"),
        "{refused}"
    );
}

#[test]
fn a_candidate_that_hangs_is_killed_with_its_descendants() {
    let machine = Machine::new();
    let pid = machine.path("pid");
    machine.program(
        "python3",
        &format!("/bin/sleep 1000 & echo $! >{pid:?}; wait"),
    );
    let search = machine.search().probe_timeout(Duration::from_millis(500));
    let path = machine.path("bin/python3");
    assert_eq!(
        tried(search.find().unwrap_err()),
        [format!("{}: did not answer within 3 s", path.display())]
    );
    let sleeper = fs::read_to_string(pid).unwrap();
    let command = format!("/proc/{}/cmdline", sleeper.trim());
    let started = std::time::Instant::now();
    while !fs::read(&command).unwrap_or_default().is_empty() {
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "the program is still running"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_python_that_answers_slowly_is_waited_for_where_there_is_no_other() {
    static TOLD: std::sync::Mutex<Vec<PathBuf>> = std::sync::Mutex::new(Vec::new());
    let machine = Machine::new();
    let real = real_python();
    let slow = machine.path("bin/python3");
    // Slow when it is started by this path, as from a cold disk; each start is another sleep.
    machine.program("python3", &format!("/bin/sleep 3; exec {real:?} \"$@\""));
    let search = machine.search().probe_timeout(Duration::from_secs(2));
    let search = search.on_wait(|path, _| TOLD.lock().unwrap().push(path.to_owned()));
    assert_eq!(search.find().unwrap().executable, real);
    assert_eq!(*TOLD.lock().unwrap(), std::slice::from_ref(&slow));
    search.explicit(&slow).find().unwrap();
}

#[test]
fn a_machine_without_python_is_told_where_the_search_looked() {
    let error = Machine::new().search().find().unwrap_err();
    assert!(error.to_string().contains("is on PATH"), "{error}");
    assert!(error.hint().unwrap().contains("CELLBLOCK_PYTHON"));
}

#[test]
fn an_explicit_interpreter_has_no_fallback() {
    let machine = Machine::new();
    machine.shim("python3");
    let fault = |wanted: &str| {
        machine
            .search()
            .explicit(wanted)
            .find()
            .unwrap_err()
            .to_string()
    };
    let start = "the Python that was asked for cannot be used:";
    assert_eq!(
        fault("/nowhere/python3"),
        format!("{start} /nowhere/python3: there is no such file")
    );
    assert_eq!(
        fault("python3.99"),
        format!("{start} python3.99: there is no program of that name on PATH")
    );
    assert_eq!(
        fault("/usr"),
        format!("{start} /usr: it is a directory, not an executable")
    );
    assert_eq!(machine.starts(), 0);
    machine.search().explicit("python3").find().unwrap();
}

#[test]
fn the_variable_names_an_explicit_interpreter() {
    let machine = Machine::new();
    machine.shim("python3");
    let variables = Variables::default()
        .with("HOME", machine.path("home"))
        .with("CELLBLOCK_PYTHON", "/nowhere/python3");
    let dirs = Dirs::new(&variables).unwrap();
    let error = Search::new(variables, &dirs).find().unwrap_err();
    assert!(matches!(error, Error::BadInterpreter(_)), "{error}");
}

#[test]
fn a_result_is_cached_until_a_file_that_it_depends_on_changes() {
    let machine = Machine::new();
    machine.shim("python3");
    let first = machine.search().find().unwrap();
    assert_eq!(machine.starts(), 1);
    assert_eq!(machine.search().find().unwrap(), first);
    assert_eq!(machine.starts(), 1, "the result was cached");

    machine.shim("python3");
    machine.search().find().unwrap();
    assert_eq!(machine.starts(), 2, "the shim was replaced");

    fs::write(machine.path("home/.python-version"), "3.12").unwrap();
    machine.search().find().unwrap();
    assert_eq!(machine.starts(), 3, "another version was chosen");

    for entry in fs::read_dir(machine.path("home/.cache/cellblock/interpreters")).unwrap() {
        fs::write(entry.unwrap().path(), "{ not json").unwrap();
    }
    machine.search().find().unwrap();
    assert_eq!(machine.starts(), 4, "the cache was damaged");
}

#[test]
fn a_cached_failure_is_probed_again_before_the_search_fails() {
    let machine = Machine::new();
    let starts = machine.path("bad-starts");
    let cured = machine.path("cured");
    let real = real_python();
    machine.program(
        "python3",
        &format!("echo start >>{starts:?}; [ -e {cured:?} ] && exec {real:?} \"$@\"; exit 1"),
    );
    let starts = || fs::read_to_string(&starts).unwrap().lines().count();
    let good = machine.shim("python3.12");

    machine.search().find().unwrap();
    machine.search().find().unwrap();
    assert_eq!(starts(), 1, "the failure was cached");

    fs::remove_file(good).unwrap();
    machine.search().find().unwrap_err();
    assert_eq!(starts(), 2, "it was probed again before the search failed");

    fs::write(&cured, "").unwrap();
    machine.search().find().unwrap();
}

#[test]
fn a_cache_that_cannot_be_written_only_costs_time() {
    let machine = Machine::new();
    machine.shim("python3");
    fs::write(machine.path("home/.cache"), "a file").unwrap();
    machine.search().find().unwrap();
    machine.search().find().unwrap();
    assert_eq!(machine.starts(), 2);
}

#[test]
fn an_interpreter_that_an_ordinary_user_cannot_reach_or_read_is_explained() {
    if rustix::process::geteuid().is_root() {
        return run_this_test_again_as_nobody(
            "find::tests::an_interpreter_that_an_ordinary_user_cannot_reach_or_read_is_explained",
        );
    }
    let machine = Machine::new();
    let user = current_user();
    let closed = machine.path("closed");
    fs::create_dir_all(closed.join("bin")).unwrap();
    fs::copy(machine.shim("python3"), closed.join("bin/python3")).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o600)).unwrap();
    let link = machine.path("bin/python3");
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(closed.join("bin/python3"), &link).unwrap();
    let python = machine.program("python", "exit 0");
    fs::set_permissions(&python, fs::Permissions::from_mode(0o311)).unwrap();

    let mut search = machine.search();
    let directory = closed.join("bin");
    search.variables = search.variables.clone().with(
        "PATH",
        format!("{}:{}", directory.display(), machine.path("bin").display()),
    );
    let (directory, closed) = (directory.display(), closed.display());
    assert_eq!(
        tried(search.find().unwrap_err()),
        [
            format!("{directory}: permission denied: {user} cannot enter {closed}"),
            format!(
                "{}: permission denied: {user} cannot enter {closed}",
                link.display()
            ),
            format!(
                "{}: permission denied: {user} cannot read it",
                python.display()
            ),
        ]
    );
}

/// Root may enter everything, so a copy of this program runs the test as another user.
fn run_this_test_again_as_nobody(name: &str) {
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let program = place.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let output = Command::new(program)
        .args(["--exact", name])
        .env("HOME", place.path())
        .env("TMPDIR", place.path())
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir("/")
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}

//! Making environments from wheels in a directory, and everything that can go wrong.

mod common;

use std::{
    fs,
    io::Read,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use cellblock_env::{Cancel, EnvironmentStatus, Error, InstallStep, Package, Requirements};
use common::{Scratch, UV, interpreter, make, output};

/// Where files come from, as Python sees it.
const WHERE: &str = "import tiny; print(tiny.__file__); print(tiny.__cached__)";

fn tiny() -> (Scratch, Requirements) {
    let scratch = Scratch::new();
    scratch.wheel(
        "tiny",
        &[
            ("tiny/__init__.py", "def main(): print('tiny was here')"),
            ("tiny/unused.py", "def never(): pass"),
            ("tiny/tests/__init__.py", "raise SystemExit('never')"),
            ("tiny/template.py", "this is {no} Python"),
        ],
    );
    (scratch, Requirements::new(["tiny"]).with_imports(["tiny"]))
}

fn install_failure(error: Error) -> (String, String) {
    let hint = error.hint().unwrap_or_default();
    match error {
        Error::Install(failure) => (failure.lines.join("\n"), hint),
        other => panic!("{other}"),
    }
}

#[test]
fn a_new_environment_is_complete_compiled_and_in_place() {
    let (scratch, wanted) = tiny();
    let environments = scratch.environments();
    assert_eq!(
        environments.status(&interpreter(), &wanted),
        EnvironmentStatus::Missing
    );

    let (made, reports) = make(&environments, &wanted);
    let made = made.unwrap();
    assert_eq!(
        made.packages,
        [Package {
            name: "tiny".to_owned(),
            version: "1.0".to_owned()
        }]
    );
    assert_eq!(made.version_of("TINY"), Some("1.0"));
    assert!(made.installer.starts_with("uv "), "{}", made.installer);
    assert!(made.bytes > 0 && made.made > 0);
    assert_eq!(made.base_prefix, interpreter().base_prefix);

    let site = made.site_packages.clone().unwrap();
    let tiny = site.join("tiny/__init__.py");
    let found = output(&made.python, &["-I", "-B", "-c", WHERE]);
    let mut lines = found.lines();
    assert_eq!(lines.next().map(Path::new), Some(tiny.as_path()));
    assert!(Path::new(lines.next().unwrap()).exists(), "no byte code");
    assert!(!site.join("tiny/tests/__pycache__").exists());
    // Read without `import`, which would put the names right: byte code of what nobody imported is there, and
    // names its file as it is called now.
    let unused = "import importlib.util, marshal, sys
cached = importlib.util.cache_from_source(sys.argv[1])
print(marshal.loads(open(cached, 'rb').read()[16:]).co_filename)";
    let unused_file = site.join("tiny/unused.py");
    let named = output(
        &made.python,
        &["-I", "-c", unused, unused_file.to_str().unwrap()],
    );
    assert_eq!(Path::new(&named), unused_file);
    assert_eq!(
        output(&made.prefix.join("bin/tiny"), &[]),
        "tiny was here",
        "scripts start after the move"
    );

    let steps: Vec<InstallStep> = reports.iter().map(|report| report.step).collect();
    assert!(steps.is_sorted(), "{steps:?}");
    assert_eq!(reports.last().map(|report| report.fraction()), Some(1.0));
    assert_eq!(scratch.leftovers().len(), 1);
    assert!(
        !scratch.path("elsewhere").exists(),
        "PIP_TARGET was followed"
    );
}

#[test]
fn the_same_set_twice_installs_nothing() {
    let (scratch, wanted) = tiny();
    let environments = scratch.environments();
    let first = make(&environments, &wanted).0.unwrap();
    let (second, reports) = make(&environments, &wanted);
    assert_eq!(second.unwrap(), first);
    assert_eq!(reports, []);
    assert_eq!(
        environments.status(&interpreter(), &wanted),
        EnvironmentStatus::Ready(Box::new(first.clone()))
    );

    let other = make(&environments, &Requirements::new(["tiny==1.0"]))
        .0
        .unwrap();
    assert_ne!(other.prefix, first.prefix);
}

#[test]
fn two_at_once_make_it_once_and_share_it() {
    let (scratch, wanted) = tiny();
    let environments = scratch.environments();
    let results: Vec<_> = thread::scope(|scope| {
        let makers: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| make(&environments, &wanted)))
            .collect();
        makers.into_iter().map(|m| m.join().unwrap()).collect()
    });
    let builders = results.iter().filter(|(_, reports)| {
        reports
            .iter()
            .any(|report| report.step == InstallStep::Install)
    });
    assert_eq!(builders.count(), 1);
    let environments: Vec<_> = results.into_iter().map(|(made, _)| made.unwrap()).collect();
    assert!(environments.iter().all(|e| *e == environments[0]));
}

#[test]
fn while_it_is_made_its_status_says_so() {
    let (scratch, wanted) = tiny();
    let environments = scratch.environments();
    let python = interpreter();
    let mut seen = Vec::new();
    environments
        .make(&python, &wanted, &Cancel::new(), &mut |_| {
            seen.push(environments.status(&python, &wanted));
        })
        .unwrap();
    assert!(!seen.is_empty());
    assert!(
        seen.iter()
            .all(|status| *status == EnvironmentStatus::Building)
    );
}

#[test]
fn a_package_that_does_not_exist_is_a_clear_error_and_leaves_nothing() {
    let (scratch, _) = tiny();
    let environments = scratch.environments();
    let wanted = Requirements::new(["tiny", "no-such-package"]);
    let (lines, hint) = install_failure(make(&environments, &wanted).0.unwrap_err());
    assert!(lines.contains("no-such-package"), "{lines}");
    assert!(hint.contains("check the names and versions"), "{hint}");
    assert_eq!(scratch.leftovers(), [""; 0]);
    assert_eq!(
        environments.status(&interpreter(), &wanted),
        EnvironmentStatus::Missing
    );
}

#[test]
fn a_package_that_cannot_be_imported_is_a_clear_error_and_leaves_nothing() {
    let scratch = Scratch::new();
    scratch.wheel("broken", &[("broken.py", "import no_such_module")]);
    let environments = scratch.environments();
    let wanted = Requirements::new(["broken"]).with_imports(["json", "broken"]);
    let error = make(&environments, &wanted).0.unwrap_err().to_string();
    assert!(error.contains("import broken: exit 1"), "{error}");
    assert!(
        error.contains("No module named 'no_such_module'"),
        "{error}"
    );
    assert_eq!(scratch.leftovers(), [""; 0]);
}

#[test]
fn a_cancelled_making_leaves_nothing() {
    let (scratch, wanted) = tiny();
    let environments = scratch.environments();
    for at in [
        InstallStep::Resolve,
        InstallStep::Compile,
        InstallStep::FirstImport,
    ] {
        let cancel = Cancel::new();
        let made = environments.make(&interpreter(), &wanted, &cancel, &mut |progress| {
            if progress.step == at {
                cancel.cancel();
            }
        });
        assert!(matches!(made, Err(Error::Cancelled)), "{at:?}: {made:?}");
        assert_eq!(scratch.leftovers(), [""; 0], "{at:?}");
    }
}

#[test]
fn what_a_killed_process_left_is_not_used_and_is_removed() {
    let (scratch, wanted) = tiny();
    let environments = scratch.environments();
    let made = make(&environments, &wanted).0.unwrap();
    let name = made.prefix.file_name().unwrap().to_str().unwrap();
    let half = made.prefix.with_file_name(format!(".{name}.partial-4"));
    fs::create_dir_all(half.join("bin")).unwrap();
    // Without its marker, an environment in the right place is as good as none.
    fs::remove_file(made.prefix.join("cellblock-environment.json")).unwrap();
    assert_eq!(
        environments.status(&interpreter(), &wanted),
        EnvironmentStatus::Missing
    );

    make(&environments, &wanted).0.unwrap();
    assert_eq!(scratch.leftovers(), [name]);
}

#[test]
fn an_environment_whose_interpreter_went_away_is_made_again() {
    let (scratch, wanted) = tiny();
    let environments = scratch.environments();
    let made = make(&environments, &wanted).0.unwrap();
    for name in ["python", "python3"] {
        let link = made.prefix.join("bin").join(name);
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink("/nowhere", &link).unwrap();
    }
    assert_eq!(
        environments.status(&interpreter(), &wanted),
        EnvironmentStatus::Missing
    );
    let again = make(&environments, &wanted).0.unwrap();
    assert_eq!(output(&again.python, &["-c", "print(1)"]), "1");
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let (mut scratch, wanted) = tiny();
    let file = scratch.path("file");
    fs::write(&file, "").unwrap();
    scratch.variables = scratch.variables.with("XDG_CACHE_HOME", &file);
    let error = make(&scratch.environments(), &wanted).0.unwrap_err();
    assert!(
        error.to_string().contains(file.to_str().unwrap()),
        "{error}"
    );
    assert!(error.hint().unwrap().contains("XDG_CACHE_HOME"));
}

#[test]
fn a_new_font_is_seen_without_a_new_environment() {
    let scratch = Scratch::new();
    // It does what matplotlib does: it writes down the fonts that there are.
    let font_manager = r#"
import os
fonts = os.path.join(os.environ["HOME"], ".fonts")
with open(os.path.join(os.environ["MPLCONFIGDIR"], "fontlist-v1.json"), "w") as file:
    file.write(" ".join(sorted(os.listdir(fonts))))
"#;
    let files = [
        ("matplotlib/__init__.py", ""),
        ("matplotlib/font_manager.py", font_manager),
    ];
    scratch.wheel("matplotlib", &files);
    let fonts = scratch.path("home/.fonts");
    fs::create_dir(&fonts).unwrap();
    fs::write(fonts.join("One.ttf"), "").unwrap();
    let environments = scratch.environments();
    let wanted = Requirements::new(["matplotlib"]).with_imports(["matplotlib.font_manager"]);

    let before = make(&environments, &wanted).0.unwrap();
    let list = before
        .matplotlib_config
        .clone()
        .unwrap()
        .join("fontlist-v1.json");
    assert_eq!(fs::read_to_string(&list).unwrap(), "One.ttf");
    assert!(before.fonts_are_current(&scratch.variables));

    fs::write(fonts.join("Two.ttf"), "").unwrap();
    assert!(!before.fonts_are_current(&scratch.variables));
    let after = make(&environments, &wanted).0.unwrap();
    assert_eq!(fs::read_to_string(&list).unwrap(), "One.ttf Two.ttf");
    assert!(after.fonts_are_current(&scratch.variables));
    assert_eq!((after.prefix, after.made), (before.prefix, before.made));
}

/// A uv that answers to `--version` and otherwise does what the test says.
fn fake_uv(scratch: &Scratch, script: &str) {
    let version = "case \"$*\" in *--version*) echo 'uv 9.9.9'; exit 0;; esac";
    scratch.program("uv", &format!("{version}\n{script}"));
}

#[test]
fn where_uv_fails_for_an_unknown_reason_it_is_run_again_with_the_machines_certificates() {
    let (scratch, wanted) = tiny();
    let log = scratch.path("log");
    let script = format!(
        "echo \"certificates=$UV_SYSTEM_CERTS links=$UV_FIND_LINKS\" >>{log:?}
echo 'Grund: unbekannter Aussteller' >&2; exit 2"
    );
    fake_uv(&scratch, &script);
    let (lines, hint) = install_failure(make(&scratch.environments(), &wanted).0.unwrap_err());
    assert_eq!(lines, "Grund: unbekannter Aussteller");
    assert!(hint.contains("SSL_CERT_FILE"), "{hint}");
    let links = scratch.path("wheels");
    let links = links.display();
    assert_eq!(
        fs::read_to_string(log).unwrap(),
        format!("certificates= links={links}\ncertificates=1 links={links}\n")
    );
    assert_eq!(scratch.leftovers(), [""; 0]);
}

#[test]
fn where_uv_finds_no_solution_it_is_run_once() {
    let (scratch, wanted) = tiny();
    let log = scratch.path("log");
    let script = format!("echo run >>{log:?}; echo 'keine Lösung' >&2; exit 1");
    fake_uv(&scratch, &script);
    let (_, hint) = install_failure(make(&scratch.environments(), &wanted).0.unwrap_err());
    assert!(hint.contains("check the names and versions"), "{hint}");
    assert_eq!(fs::read_to_string(log).unwrap(), "run\n");
}

/// Variables with which no uv is found.
fn without_uv(scratch: &mut Scratch) {
    scratch.program("uv", "exit 1");
    let path = format!("{}:/usr/bin:/bin", scratch.path("bin").display());
    scratch.variables = scratch.variables.clone().with("PATH", path);
}

#[test]
fn where_there_is_no_uv_pip_brings_it() {
    let (mut scratch, wanted) = tiny();
    let script = format!("#!/bin/sh\nexec {:?} \"$@\"\n", UV.as_path());
    scratch.wheel("uv", &[("uv-1.0.data/scripts/uv", &script)]);
    without_uv(&mut scratch);
    let made = make(&scratch.environments(), &wanted).0.unwrap();
    assert!(made.installer.starts_with("uv "), "{}", made.installer);
    assert_eq!(made.version_of("tiny"), Some("1.0"));
    assert!(scratch.path("cache/cellblock/tools/uv/bin/uv").exists());
}

#[test]
fn without_uv_and_without_an_index_the_error_says_what_was_tried() {
    let (mut scratch, wanted) = tiny();
    without_uv(&mut scratch);
    let error = make(&scratch.environments(), &wanted).0.unwrap_err();
    assert!(matches!(error, Error::NoInstaller { .. }), "{error}");
    assert!(
        error.to_string().contains("could not download uv"),
        "{error}"
    );
    assert!(error.hint().unwrap().contains("install uv"));
}

#[test]
fn an_installer_does_not_outlive_a_host_that_was_killed() {
    const NAME: &str = "an_installer_does_not_outlive_a_host_that_was_killed";
    if let Some(bin) = std::env::var_os("TEST_HOST_BIN") {
        // This process is the host.
        let mut scratch = Scratch::new();
        scratch.variables = scratch.variables.with("PATH", bin);
        let _ = make(&scratch.environments(), &Requirements::new(["tiny"]));
        return;
    }
    let scratch = Scratch::new();
    let pid = scratch.path("pid");
    fake_uv(
        &scratch,
        &format!("echo $$ >{pid:?}.new; /bin/mv {pid:?}.new {pid:?}; exec /bin/sleep 1000"),
    );
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME])
        .env("TEST_HOST_BIN", scratch.path("bin"))
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let started = Instant::now();
    let time_limit = Duration::from_secs(60);
    while !pid.exists() {
        assert!(started.elapsed() < time_limit, "uv was not started");
        thread::sleep(Duration::from_millis(10));
    }
    let installer = fs::read_to_string(&pid).unwrap();
    let command = format!("/proc/{}/cmdline", installer.trim());
    let is_running = || !fs::read(&command).unwrap_or_default().is_empty();
    // While the kernel executes a new program, the command line is empty for a moment.
    while !is_running() {
        assert!(started.elapsed() < time_limit, "uv is not running");
        thread::sleep(Duration::from_millis(1));
    }

    host.kill().unwrap();
    host.wait().unwrap();
    while is_running() {
        assert!(
            started.elapsed() < time_limit,
            "the installer is still running"
        );
        thread::sleep(Duration::from_millis(10));
    }
    let mut text = String::new();
    let _ = host.stdout.take().unwrap().read_to_string(&mut text);
}

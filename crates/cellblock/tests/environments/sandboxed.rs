//! Installers run in a sandbox: what they see, what they reach, and what is used of their output.

use crate::index::Index;
use crate::packages::{home, sandbox, wheel};
use cellblock::env::{
    Cancel, CommandFailure, Dirs, Environment, Environments, Error, InstallProgress, InstallStep,
    InstallerSandbox, OpenSandbox, Requirements, SandboxCommand, SandboxError, SandboxOptions,
    Search, Variables,
};
use cellblock_test_support::{python, test_directory};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// Environments of their own that are made from an index.
fn environments(index: &Index, sandbox: Arc<dyn InstallerSandbox>) -> Environments {
    Environments::new(variables(index), &fresh_dirs()).sandbox(sandbox)
}

fn variables(index: &Index) -> Variables {
    crate::packages::variables()
        .with("PIP_INDEX_URL", index.url())
        .with("API_TOKEN", "the secret token")
        .without("PIP_FIND_LINKS")
}

fn fresh_dirs() -> Dirs {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Dirs {
        cache: test_directory().join(format!("cache-{number}")),
        state: test_directory().join("state"),
    }
}

fn make(
    environments: &Environments,
    package: &str,
) -> (Result<Environment, Error>, Vec<InstallProgress>) {
    let search = Search::new(Variables::from_process(), &fresh_dirs());
    let interpreter = search.explicit(python()).find().unwrap();
    let mut reports = Vec::new();
    let wanted = Requirements::new([package]);
    let made = environments.make(&interpreter, &wanted, &Cancel::new(), &mut |progress| {
        reports.push(progress);
    });
    (made, reports)
}

/// Runs a script in every sandbox, after each command.
#[derive(Debug)]
struct Intruder {
    sandbox: Arc<dyn InstallerSandbox>,
    script: String,
    output: Arc<Mutex<Vec<String>>>,
}

impl InstallerSandbox for Intruder {
    fn open(&self, options: &SandboxOptions) -> Result<Box<dyn OpenSandbox>, SandboxError> {
        Ok(Box::new(IntrudedSandbox {
            sandbox: self.sandbox.open(options)?,
            python: options.interpreter.executable.clone(),
            script: self.script.clone(),
            output: Arc::clone(&self.output),
        }))
    }
}

struct IntrudedSandbox {
    sandbox: Box<dyn OpenSandbox>,
    python: PathBuf,
    script: String,
    output: Arc<Mutex<Vec<String>>>,
}

impl OpenSandbox for IntrudedSandbox {
    fn directory(&self) -> &Path {
        self.sandbox.directory()
    }

    fn run(
        &mut self,
        command: &SandboxCommand,
        cancel: &Cancel,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<(), CommandFailure> {
        self.sandbox.run(command, cancel, on_line)?;
        let mut intrusion = command.clone();
        intrusion.arguments = vec![
            self.python.clone().into(),
            "-c".into(),
            self.script.clone().into(),
        ];
        let output = Arc::clone(&self.output);
        self.sandbox.run(&intrusion, cancel, &mut |line| {
            output.lock().unwrap().push(line.to_owned());
        })
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        self.sandbox.read(name)
    }
}

fn intruder(script: String) -> (Arc<dyn InstallerSandbox>, Arc<Mutex<Vec<String>>>) {
    let output = Arc::default();
    let intruder = Intruder {
        sandbox: sandbox(),
        script,
        output: Arc::clone(&output),
    };
    (Arc::new(intruder), output)
}

#[test]
fn an_installer_reaches_only_the_index_sees_no_file_of_the_user_and_writes_nowhere_else() {
    wheel("plain", "1.0", &[("plain.py", "number = 1")]);
    let (index, other) = (Index::new(), Index::new());
    index.offer("plain", &index.host);
    index.keep("plain");
    let (key, trap) = (
        home().join(".ssh/id_ed25519"),
        test_directory().join("trap"),
    );
    let script = format!(
        r#"
import os, socket, urllib.request
def attempt(action):
    try:
        return str(action())
    except Exception as error:
        return type(error).__name__
def get(address):
    return urllib.request.urlopen(address, timeout=5).status
def connect(host, port):
    return socket.create_connection((host, int(port)), 5)
print('key', attempt(lambda: open({key:?}).read()))
print('home', attempt(lambda: os.listdir({home:?})))
print('token', os.environ.get('API_TOKEN'))
print('beside', attempt(lambda: open({trap:?}, 'w')))
print('index', attempt(lambda: get('{url}plain/')))
print('other', attempt(lambda: get('http://{other}/')))
print('direct', attempt(lambda: connect(*'{other}'.split(':'))) in ('ConnectionRefusedError', 'PermissionError'))
"#,
        home = home(),
        url = index.url(),
        other = other.host,
    );
    let (sandbox, output) = intruder(script);
    let environments = environments(&index, sandbox);
    let (made, reports) = make(&environments, "plain");
    let made = made.unwrap();
    assert_eq!(made.version_of("plain"), Some("1.0"));
    assert!(!made.installer.contains("outside"), "{}", made.installer);
    let is_inside = |report: &InstallProgress| report.step != InstallStep::OutsideWalls;
    assert!(reports.iter().all(is_inside));
    let output = output.lock().unwrap();
    let expected = [
        "key FileNotFoundError",
        "home FileNotFoundError",
        "token None",
        "beside FileNotFoundError",
        "index 200",
        "other HTTPError",
        "direct True",
    ];
    assert!(output.len() >= expected.len(), "{output:?}");
    for (line, expected) in output.iter().zip(expected.iter().cycle()) {
        assert_eq!(line, expected);
    }
    assert_eq!(other.asked(), [""; 0]);
    assert!(!trap.exists());
}

#[test]
fn a_foreign_host_of_an_index_is_named_with_the_setting_that_would_allow_it() {
    wheel("moved", "1.0", &[("moved.py", "number = 1")]);
    let (index, other) = (Index::new(), Index::new());
    index.offer("moved", &other.host);
    other.keep("moved");
    let error = make(&environments(&index, sandbox()), "moved").0;
    let error = error.unwrap_err();
    let message = format!("may not reach {}", other.host);
    assert!(error.to_string().contains(&message), "{error}");
    let allow = format!("set CELLBLOCK_INDEX_HOSTS=\"{}\"", other.host);
    let hint = error.hint().unwrap();
    assert!(hint.contains(&allow), "{hint}");
    assert_eq!(other.asked(), [""; 0]);

    let variables = variables(&index).with("CELLBLOCK_INDEX_HOSTS", &other.host);
    let environments = Environments::new(variables, &fresh_dirs()).sandbox(sandbox());
    let made = make(&environments, "moved").0.unwrap();
    assert_eq!(made.version_of("moved"), Some("1.0"));
}

#[test]
fn an_index_that_does_not_answer_and_one_without_the_package_have_different_hints() {
    let index = Index::new();
    let mut silent = Index::new();
    silent.host = "127.0.0.1:1".to_owned();
    let absent = make(&environments(&index, sandbox()), "absent").0;
    let hint = absent.unwrap_err().hint().unwrap();
    assert!(hint.contains("check the names and versions"), "{hint}");

    let unreached = make(&environments(&silent, sandbox()), "absent").0;
    let hint = unreached.unwrap_err().hint().unwrap();
    let expected = "the package index could not be reached";
    assert!(hint.contains(expected), "{hint}");
}

#[test]
fn a_link_to_a_file_of_the_user_is_not_moved_out_of_the_sandbox() {
    wheel("linked", "1.0", &[("linked.py", "number = 1")]);
    let index = Index::new();
    index.offer("linked", &index.host);
    index.keep("linked");
    let secret = home().join(".ssh/id_ed25519");
    let script = format!(
        "import os\nif os.path.isdir('output') and not os.path.lexists('output/a'): os.symlink({secret:?}, 'output/a')"
    );
    let (sandbox, _) = intruder(script);
    let environments = environments(&index, sandbox);
    let error = make(&environments, "linked").0.unwrap_err().to_string();
    assert!(error.contains("a link that leads out"), "{error}");
    assert_eq!(fs::read_to_string(secret).unwrap(), "the secret key");
}

#[derive(Debug)]
struct NoSandbox;

impl InstallerSandbox for NoSandbox {
    fn open(&self, _: &SandboxOptions) -> Result<Box<dyn OpenSandbox>, SandboxError> {
        let why = "missing: user namespaces".to_owned();
        Err(SandboxError::Unavailable(why))
    }
}

#[test]
fn without_a_sandbox_the_progress_and_the_environment_say_so() {
    wheel("bare", "1.0", &[("bare.py", "number = 1")]);
    let index = Index::new();
    index.offer("bare", &index.host);
    index.keep("bare");
    let environments = environments(&index, Arc::new(NoSandbox));
    let (made, reports) = make(&environments, "bare");
    let made = made.unwrap();
    let warning = reports
        .iter()
        .find(|report| report.step == InstallStep::OutsideWalls);
    assert_eq!(
        warning.unwrap().message,
        "the installer runs outside of walls: missing: user namespaces"
    );
    assert!(made.installer.ends_with(", outside of walls"), "{made:?}");

    // A package that does not exist is not blamed on the missing sandbox.
    let absent = make(&environments, "absent").0.unwrap_err();
    let hint = absent.hint().unwrap();
    assert!(hint.contains("check the names and versions"), "{hint}");
    let message = absent.to_string();
    let line = "nothing was built from source: missing: user namespaces";
    assert!(message.contains(line), "{message}");
}

#[test]
fn a_package_is_downloaded_once() {
    wheel("kept", "1.0", &[("kept.py", "number = 1")]);
    wheel("beside", "1.0", &[("beside.py", "number = 1")]);
    let index = Index::new();
    for name in ["kept", "beside"] {
        index.offer(name, &index.host);
        index.keep(name);
    }
    let times = || {
        let asked = index.asked();
        asked
            .iter()
            .filter(|path| path.starts_with("/kept"))
            .count()
    };
    let environments = environments(&index, sandbox());
    let interpreter = make(&environments, "kept").0.unwrap().interpreter;
    let before = times();
    let both = Requirements::new(["kept", "beside"]);
    let made = environments.make(&interpreter, &both, &Cancel::new(), &mut |_| {});
    assert_eq!(made.unwrap().packages.len(), 2);
    assert_eq!(before, times(), "{:?}", index.asked());
}

#[test]
fn a_proxy_of_the_machine_is_used_and_opens_no_other_host() {
    wheel("proxied", "1.0", &[("proxied.py", "number = 1")]);
    let proxy = Index::new();
    proxy.offer("proxied", "index.invalid");
    proxy.keep("proxied");
    let other = "import urllib.request as u\ntry: print(u.urlopen('http://other.invalid/').status)\nexcept Exception as e: print(e.code)";
    let variables = variables(&proxy)
        .with("PIP_INDEX_URL", "http://index.invalid/simple/")
        .with("PIP_TRUSTED_HOST", "index.invalid")
        .with("PIP_PROXY", format!("http://{}", proxy.host));
    let (sandbox, output) = intruder(other.to_owned());
    let environments = Environments::new(variables, &fresh_dirs()).sandbox(sandbox);
    let made = make(&environments, "proxied").0.unwrap();
    assert_eq!(made.version_of("proxied"), Some("1.0"));
    let output = output.lock().unwrap();
    assert!(output.iter().all(|line| line == "403"), "{output:?}");
    let asked = proxy.asked();
    assert!(
        asked
            .iter()
            .all(|url| url.starts_with("http://index.invalid")),
        "{asked:?}"
    );
}

#[test]
fn a_layer_is_made_in_one_sandbox() {
    wheel("layered", "1.0", &[("layered.py", "number = 1")]);
    let index = Index::new();
    index.offer("layered", &index.host);
    index.keep("layered");
    let (sandbox, output) = intruder("import os; print(os.getcwd())".to_owned());
    let environments = environments(&index, sandbox);
    let search = Search::new(Variables::from_process(), &fresh_dirs());
    let interpreter = search.explicit(python()).find().unwrap();
    let wanted = Requirements::new(["layered"]);
    let layer = environments.make_layer(&interpreter, &[], &wanted, &Cancel::new(), &mut |_| {});
    let layer = layer.unwrap();
    assert_eq!(
        layer.to_string(),
        "Installed layered 1.0. All variables are as they were."
    );
    assert!(layer.path.unwrap().join("layered.py").exists());
    // One sandbox for everything: resolving, installing, compiling.
    assert_eq!(*output.lock().unwrap(), ["/workspace"; 3]);
}

#[test]
fn a_cancelled_installer_ends_at_once_and_leaves_nothing() {
    let index = Index::new();
    let dirs = fresh_dirs();
    let (sandbox, _) = intruder("import time; time.sleep(600)".to_owned());
    let environments = Environments::new(variables(&index), &dirs).sandbox(sandbox);
    let search = Search::new(Variables::from_process(), &fresh_dirs());
    let interpreter = search.explicit(python()).find().unwrap();
    let cancel = Cancel::new();
    let begun = std::time::Instant::now();
    let made = std::thread::scope(|scope| {
        let maker = scope.spawn(|| {
            let nothing = Requirements::new(Vec::<String>::new());
            environments.make(&interpreter, &nothing, &cancel, &mut |_| {})
        });
        std::thread::sleep(std::time::Duration::from_secs(3));
        cancel.cancel();
        maker.join().unwrap()
    });
    assert!(matches!(made, Err(Error::Cancelled)), "{made:?}");
    assert!(begun.elapsed().as_secs() < 60);
    let left = fs::read_dir(dirs.cache.join("requests")).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(
        left.iter()
            .all(|name| name.to_string_lossy().ends_with(".lock")),
        "{left:?}"
    );
}

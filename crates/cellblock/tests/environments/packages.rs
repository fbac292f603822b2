//! A directory of packages, and a host that installs from it.

use cellblock::env::{
    Cancel, Dirs, Environments, InstallerSandbox, Requirements, Search, Variables,
};
use cellblock::tools::{
    Approval, ApprovalMode, ApprovalPolicy, InstallPackagesTool, Registry, ToolRunner,
};
use cellblock::{Host, Packages, Preload, PythonChoice, SessionOptions};
use cellblock_test_support::{python, test_directory};
use std::future::Future;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use std::{fs, thread};

/// Installing takes longer than running.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    let limited = async { tokio::time::timeout(Duration::from_secs(300), future).await };
    cellblock_test_support::runtime()
        .block_on(limited)
        .expect("it did not end within five minutes")
}

pub(crate) fn dirs() -> Dirs {
    Dirs {
        cache: test_directory().join("cache"),
        state: test_directory().join("state"),
    }
}

/// The directory with the packages.
pub(crate) fn package_directory() -> PathBuf {
    let path = test_directory().join("packages");
    fs::create_dir_all(&path).unwrap();
    path
}

/// A home with a secret in it.
pub(crate) fn home() -> PathBuf {
    let home = test_directory().join("home");
    fs::create_dir_all(home.join(".ssh")).unwrap();
    fs::write(home.join(".ssh/id_ed25519"), "the secret key").unwrap();
    home
}

/// A uv that works: the one that `cellblock setup` downloaded; it is downloaded if there is none.
static UV: LazyLock<PathBuf> = LazyLock::new(|| {
    let uv = Dirs::from_process().unwrap().cache.join("tools/uv/bin/uv");
    if !uv.exists() {
        let interpreter = Search::from_process().unwrap().find().unwrap();
        let environments = Environments::from_process().unwrap();
        let nothing = Requirements::new(Vec::<String>::new());
        let made = environments.make(&interpreter, &nothing, &Cancel::new(), &mut |_| {});
        made.unwrap();
    }
    uv
});

/// The variables of this process, with a uv on `PATH` and a home that holds a secret.
pub(crate) fn variables() -> Variables {
    let path = std::env::var("PATH").unwrap_or_default();
    let uv = UV.parent().unwrap().display();
    Variables::from_process()
        .with("HOME", home())
        .with("PATH", format!("{uv}:{path}"))
}

/// Environments that are made from the packages in the directory.
pub(crate) fn environments() -> Environments {
    let variables = variables()
        .with("PIP_NO_INDEX", "1")
        .with("PIP_FIND_LINKS", package_directory());
    Environments::new(variables, &dirs()).sandbox(sandbox())
}

/// The sandbox of the library.
pub(crate) fn sandbox() -> Arc<dyn InstallerSandbox> {
    let host = Host::builder()
        .interpreter(python())
        .python(PythonChoice::StandardLibrary)
        .dirs(dirs())
        .build()
        .unwrap();
    let sandbox = host.packages().environments().installer_sandbox();
    Arc::clone(sandbox.unwrap())
}

/// The host of these tests.
pub(crate) fn host() -> &'static Host {
    static HOST: LazyLock<Host> = LazyLock::new(|| {
        wheel("tiny", "1.0", &[("tiny.py", "number = 1")]);
        wheel(
            "other",
            "1.0",
            &[("other.py", "import tiny\nnumber = tiny.number + 1")],
        );
        wheel(
            "json",
            "9.9",
            &[("json.py", "intruder = True"), ("honest.py", "number = 0")],
        );
        Host::builder()
            .interpreter(python())
            .python(PythonChoice::StandardLibrary)
            .preload(Preload::None)
            .dirs(dirs())
            .environments(environments())
            .build()
            .unwrap()
    });
    &HOST
}

/// Tools over a session of the host; installs are not asked about.
pub(crate) fn workbench() -> ToolRunner {
    let registry = Registry::builder()
        .built_in()
        .tool(InstallPackagesTool::new(Packages::clone(host().packages())))
        .build()
        .unwrap();
    let policy = ApprovalPolicy {
        mode: ApprovalMode::Never,
        ..ApprovalPolicy::default()
    };
    ToolRunner::builder(registry)
        .open_sessions(|| Box::pin(async { Ok(host().open(SessionOptions::default()).await?) }))
        .approval(Approval::new(policy, None))
        .build()
}

/// Makes a wheel in the directory of packages.
pub(crate) fn wheel(name: &str, version: &str, files: &[(&str, &str)]) {
    let script = r#"
import sys, zipfile
packages, name, version, *files = sys.argv[1:]
info = f"{name}-{version}.dist-info"
with zipfile.ZipFile(f"{packages}/{name}-{version}-py3-none-any.whl", "w") as wheel:
    for path, text in zip(files[::2], files[1::2]):
        wheel.writestr(path, text)
    wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(f"{info}/RECORD", "".join(f"{p},,\n" for p in wheel.namelist()))
"#;
    make(script, name, version, files);
}

/// Makes a source distribution whose build is the given code. The code must return `wheel(directory, text)`, where the text is that of the module.
pub(crate) fn source(name: &str, backend: &str) {
    let script = r#"
import io, sys, tarfile
packages, name, version, backend = sys.argv[1:]
top = f"{name}-{version}"
tools = '''
import os, zipfile
NAME, VERSION = "%s", "%s"
def wheel(directory, text):
    info = f"{NAME}-{VERSION}.dist-info"
    file = f"{NAME}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(directory, file), "w") as wheel:
        wheel.writestr(f"{NAME}.py", text)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\\nName: {NAME}\\nVersion: {VERSION}\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "".join(f"{p},,\\n" for p in wheel.namelist()))
    return file
''' % (name, version)
files = {
    "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
    "pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n",
    "backend.py": tools + "\ndef build_wheel(directory, settings=None, metadata=None):\n"
        + "".join(f"    {line}\n" for line in backend.splitlines()),
}
with tarfile.open(f"{packages}/{top}.tar.gz", "w:gz") as archive:
    for path, text in files.items():
        entry = tarfile.TarInfo(f"{top}/{path}")
        entry.size = len(text.encode())
        archive.addfile(entry, io.BytesIO(text.encode()))
"#;
    make(script, name, "1.0", &[(backend, "")][..1]);
}

fn make(script: &str, name: &str, version: &str, files: &[(&str, &str)]) {
    let words = files.iter().flat_map(|(path, text)| [*path, *text]);
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let made = Command::new(python())
        .args(["-I", "-c", script])
        .arg(package_directory())
        .args([name, version])
        .args(words)
        .status();
    assert!(made.unwrap().success());
}

/// Runs two things at once and returns what came of them.
pub(crate) fn both<T: Send>(work: impl Fn() -> T + Sync) -> [T; 2] {
    thread::scope(|scope| {
        let other = scope.spawn(&work);
        [work(), other.join().unwrap()]
    })
}

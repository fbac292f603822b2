//! What a failure says, and its hint.

use crate::support::session;
use cellblock_protocol::{Obstacle, Status};

/// What a failed cell says, and the hint that goes with it.
fn hint(code: &str) -> (String, Option<String>) {
    let result = session().run(code);
    assert_eq!(result.status, Status::Failure);
    let error = result.error.unwrap();
    (error.value, error.hint)
}

#[test]
fn a_refused_connection_says_that_there_is_no_network_and_what_would_help() {
    let code = "import socket\nsocket.create_connection(('93.184.216.34', 80), timeout=5)";
    let error = session().run(code).error.unwrap();
    let why = "; this session has no network: hand the data in as a file in the workspace, or fetch it through a tool";
    assert!(error.value.ends_with(why), "{}", error.value);
    assert_eq!(error.obstacle, Some(Obstacle::NoNetwork));
}

#[test]
fn a_name_that_cannot_be_resolved_says_that_there_is_no_network() {
    let (value, _) =
        hint("import urllib.request\nurllib.request.urlopen('http://example.com', timeout=5)");
    assert!(value.contains("this session has no network"), "{value}");
}

#[test]
fn a_file_of_the_host_is_not_there_and_the_hint_says_where_files_are() {
    let (value, hint) = hint("open('/home/someone/data.csv')");
    assert_eq!(
        value,
        "[Errno 2] No such file or directory: '/home/someone/data.csv'"
    );
    assert_eq!(
        hint.unwrap(),
        "Files of the host are not visible in this session; put the file into the workspace, which is /workspace."
    );
}

#[test]
fn writing_outside_the_workspace_is_refused_and_explained() {
    let (_, hint) = hint("open('/usr/lib/x', 'w')");
    assert_eq!(
        hint.unwrap(),
        "Only /workspace and /tmp are writable in this session; /usr/lib/x is outside. Use a path relative to the workspace."
    );
}

#[test]
fn a_package_that_is_missing_and_an_install_name_install_packages() {
    let (_, missing) = hint("import no_such_package");
    assert_eq!(
        missing.unwrap(),
        "The package 'no_such_package' is not part of this session. Packages cannot be installed from a cell, and this session does not offer install_packages; open it in an environment that has them (`env`)."
    );
    for code in [
        "!pip install x",
        "%pip install x",
        "import subprocess\nsubprocess.run(['pip', 'install', 'x'])",
        "import os\nos.system('uv add x')",
    ] {
        let (value, _) = hint(code);
        assert!(value.contains("install_packages"), "{code}: {value}");
    }
}

#[test]
fn a_package_is_named_as_an_index_has_it() {
    let error = session().run("import sklearn.svm").error.unwrap();
    assert_eq!(
        (error.obstacle, error.package.as_deref()),
        (Some(Obstacle::Package), Some("scikit-learn"))
    );
    let hint = error.hint.unwrap();
    let named = "The package 'scikit-learn', which has the module 'sklearn', is not part";
    assert!(hint.starts_with(named), "{hint}");
    // A part that a package does not have is no package.
    assert_eq!(hint_of("import json.nowhere"), None);
}

#[test]
fn a_file_that_is_read_and_is_not_there_has_a_hint() {
    for code in [
        "open('sales.csv')",
        "open('/workspace/sales.csv', 'rb').read()",
        "with open(\n    'sales.csv',\n    encoding='utf-8',\n) as file: pass",
        "import pathlib; pathlib.Path('sales.csv').read_text()",
        "import zipfile; zipfile.ZipFile('sales.zip')",
        "import shutil; shutil.copy('sales.csv', 'copy.csv')",
        "import os; os.open('sales.csv', os.O_RDONLY)",
    ] {
        let error = session().run(code).error.unwrap();
        assert_eq!(error.obstacle, Some(Obstacle::File), "{code}");
        assert_eq!(
            error.hint.unwrap(),
            "The session sees only the files of its workspace, and this one is not among them.",
            "{code}"
        );
    }
}

#[test]
fn other_calls_about_paths_that_lead_nowhere_have_no_hint_about_files() {
    for code in [
        "open('missing/out.csv', 'w')",
        "open('/workspace/missing/out.csv', 'w')",
        "import os; os.rename('a', 'b')",
        "import os; os.rmdir('open')",
        "import os; os.chdir('nowhere')",
        "import os; os.remove('x')",
        "import os; os.chdir('/tmp'); open('x')",
        "import subprocess; subprocess.run(['no-such-program'])",
        "import subprocess; subprocess.run(['./no-such-program'])",
    ] {
        let error = session().run(code).error.unwrap();
        assert_eq!((error.hint, error.obstacle), (None, None), "{code}");
    }
}

#[test]
fn an_own_port_where_nothing_listens_is_not_blamed_on_the_network() {
    let refused = "import socket; socket.create_connection(('localhost', 9), timeout=5)";
    let (value, hint) = hint(refused);
    assert_eq!((&value[..], hint), ("[Errno 111] Connection refused", None));
}

fn hint_of(code: &str) -> Option<String> {
    hint(code).1
}

#[test]
fn a_misspelt_name_gets_a_proposal() {
    assert_eq!(
        hint("temperature = 1\ntemprature").1.unwrap(),
        "Did you mean 'temperature'?"
    );
}

#[test]
fn an_error_without_a_wall_behind_it_has_no_hint() {
    assert_eq!(hint("[][0]"), ("list index out of range".into(), None));
}

#[test]
fn a_huge_message_is_cut_and_the_last_line_stays() {
    let error = session()
        .run("raise ValueError('x' * 10**7)")
        .error
        .unwrap();
    assert!(error.traceback.len() < 100_000, "{}", error.traceback.len());
    assert!(
        error
            .traceback
            .lines()
            .last()
            .unwrap()
            .starts_with("ValueError: xxx")
    );
}

#[test]
fn warnings_go_to_stderr_with_the_line_that_caused_them() {
    let result = session().good("import warnings\nwarnings.warn('careful')");
    assert_eq!(
        result.stderr,
        "<cell 1>:2: UserWarning: careful\n  warnings.warn('careful')\n"
    );
}

#[test]
fn what_notebooks_allow_beyond_python_is_explained() {
    let session = session();
    session.good("%matplotlib inline\nx = 1");
    assert_eq!(session.value("    x + 1"), "2");
    let error = session.run("!ls -l").error.unwrap();
    assert!(
        error.value.contains("subprocess.run('ls -l', shell=True"),
        "{}",
        error.value
    );
}

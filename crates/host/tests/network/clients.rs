//! Programs that people use, unchanged: each finds the proxy by itself. These need packages from the index.

use super::common::{runtime, test_directory, wait};
use super::servers::{Server, fails, page_answer, prints};
use cellblock_env::{Cancel, Dirs, Environments, Requirements, Search};
use cellblock_host::Host;
use cellblock_session::{Preload, Session};
use std::sync::{Arc, LazyLock, Mutex};

/// Packages that are made once and then found in the cache.
const PACKAGES: [&str; 4] = ["httpx", "pip", "psycopg[binary]", "requests"];

static HOST: LazyLock<Host> = LazyLock::new(|| {
    let interpreter = Search::from_process().unwrap().find().unwrap();
    let environments = Environments::from_process().unwrap();
    let made = environments.make(
        &interpreter,
        &Requirements::new(PACKAGES),
        &Cancel::new(),
        &mut |_| {},
    );
    let dirs = Dirs {
        state: test_directory().join("state-of-clients"),
        ..Dirs::from_process().unwrap()
    };
    let host = Host::builder().environment(made.unwrap());
    host.preload(Preload::None).dirs(dirs).build().unwrap()
});

/// A session with these packages that may reach `rules`.
pub(super) fn session_with_packages(rules: &[String]) -> Session {
    // Made before the clock of `wait` runs: the first time, packages are installed.
    let host = LazyLock::force(&HOST);
    let _entered = runtime().enter();
    let rules = rules.iter().map(|rule| rule.parse().unwrap());
    let builder = host.session();
    wait(
        rules
            .fold(builder, |builder, rule| builder.allow_net(rule))
            .start(),
    )
    .unwrap()
}

#[test]
fn requests_httpx_and_urllib_reach_what_was_allowed_and_nothing_else() {
    let (allowed, secret) = (Server::web("a page"), Server::web("a secret"));
    let session = session_with_packages(&[format!("localhost:{}", allowed.port)]);
    for fetch in [
        "import requests
def fetch(url):
    answer = requests.get(url, timeout=10); answer.raise_for_status(); return answer.text",
        "import httpx
def fetch(url):
    answer = httpx.get(url, timeout=10); answer.raise_for_status(); return answer.text",
        "from urllib.request import urlopen
def fetch(url): return urlopen(url, timeout=10).read().decode()",
    ] {
        let code = |port: u16| format!("{fetch}\nprint(fetch('http://localhost:{port}/'))");
        assert_eq!(prints(&session, &code(allowed.port)), "a page\n");
        let message = fails(&session, &code(secret.port));
        let expected = format!("may not reach localhost:{}", secret.port);
        assert!(message.contains(&expected), "{message}");
    }
    assert_eq!(allowed.heard().len(), 3);
    assert!(secret.heard().is_empty());
}

/// Makes a package, as small as they get.
const WHEEL: &str = "import zipfile
with zipfile.ZipFile('tiny-1.0-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('tiny.py', 'size = 1')
    wheel.writestr('tiny-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n')
    wheel.writestr('tiny-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr('tiny-1.0.dist-info/RECORD', '')";

#[test]
fn pip_installs_from_an_index_that_was_allowed() {
    let wheel = Arc::new(Mutex::new(Vec::new()));
    let served = Arc::clone(&wheel);
    let index = Server::new(move |request| match request.split(' ').nth(1) {
        Some("/simple/tiny/") => page_answer("<a href='/tiny-1.0-py3-none-any.whl'>tiny</a>"),
        Some("/tiny-1.0-py3-none-any.whl") => page_answer(&*served.lock().unwrap()),
        _ => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(),
    });
    let session = session_with_packages(&[format!("localhost:{}", index.port)]);
    prints(&session, WHEEL);
    let file = wait(session.get_file("tiny-1.0-py3-none-any.whl"));
    *wheel.lock().unwrap() = file.unwrap();
    let pip = |index: &str| {
        format!(
            "import subprocess, sys
done = subprocess.run([sys.executable, '-m', 'pip', '--retries', '0', 'install', '--target', 'lib', '--index-url', '{index}', 'tiny'], capture_output=True, text=True)
print(done.stdout + done.stderr)"
        )
    };
    let output = prints(&session, &pip("http://localhost:9/simple/"));
    assert!(output.contains("No matching distribution"), "{output}");
    let output = prints(
        &session,
        &pip(&format!("http://localhost:{}/simple/", index.port)),
    );
    assert!(
        output.contains("Successfully installed tiny-1.0"),
        "{output}"
    );
    let import = "sys.path.append('lib')\nimport tiny\nprint(tiny.size)";
    assert_eq!(prints(&session, import), "1\n");
}

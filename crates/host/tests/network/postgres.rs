//! A PostgreSQL of a test's own: its own directory, on the loopback, at a port that is free.

use super::common::test_directory;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Whom the server runs as where the tests run as root, for whom it refuses to run.
const NOBODY: u32 = 65534;
pub(super) const PASSWORD: &str = "opens-the-test-database";

/// A server that runs for as long as this lives.
pub(super) struct Postgres {
    server: Child,
    pub(super) port: u16,
}

impl Postgres {
    /// Starts one. `None`, and a line about it, where there is none on this machine; in continuous integration that is a failure.
    pub(super) fn start() -> Option<Postgres> {
        let Some(programs) = programs() else {
            let why = "left out: PostgreSQL is not installed here; `apt-get install postgresql` brings it";
            assert!(std::env::var_os("CI").is_none(), "{why}");
            println!("{why}");
            return None;
        };
        let home = test_directory().join("postgres");
        let data = home.join("data");
        fs::create_dir(&home).unwrap();
        fs::write(home.join("password"), PASSWORD).unwrap();
        if fs::metadata(&home).unwrap().uid() == 0 {
            for path in [&home, &home.join("password")] {
                chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        let made = as_nobody(&programs.join("initdb"), &home)
            .args([
                "--username=cellblock",
                "--auth=scram-sha-256",
                "--no-sync",
                "--encoding=UTF8",
            ])
            .arg(format!("--pwfile={}", home.join("password").display()))
            .arg(format!("--pgdata={}", data.display()))
            .output()
            .unwrap();
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let port = free_port();
        let server = as_nobody(&programs.join("postgres"), &home)
            .args(["-h", "127.0.0.1", "-F", "-p", &port.to_string()])
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(&home)
            .stderr(fs::File::create(test_directory().join("postgres.log")).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut postgres = Postgres { server, port };
        postgres.wait_until_up();
        Some(postgres)
    }

    fn wait_until_up(&mut self) {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let log =
                || fs::read_to_string(test_directory().join("postgres.log")).unwrap_or_default();
            assert!(self.server.try_wait().unwrap().is_none(), "{}", log());
            assert!(begun.elapsed() < Duration::from_secs(60), "{}", log());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Where the server's programs are: on the path, or where Debian puts each version of them.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let installed = versions.flatten().map(|version| version.path().join("bin"));
    std::env::split_paths(&path)
        .chain(installed)
        .find(|place| place.join("initdb").exists() && place.join("postgres").exists())
}

fn as_nobody(program: &Path, home: &Path) -> Command {
    let mut command = if fs::metadata("/proc/self").unwrap().uid() == 0 {
        let mut command = Command::new("setpriv");
        command
            .args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")])
            .args(["--clear-groups", "--pdeathsig=SIGQUIT"])
            .arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir(home).env("LC_ALL", "C");
    command
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

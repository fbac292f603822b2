//! The host that a snippet would escape to: the canary, what an escape would change, and how that is seen.

use super::common::{
    Child, behind, new_directory, permissions_of, process, python, run, run_if_alive, token, wait,
    within,
};
use super::marks::{self, Marked};
use super::queues::{OF_QUEUES, Queue};
use super::snippets::Snippet;
use super::stage::Stage;
use cellblock_protocol::{Cell, Isolation, Limits, Spawn};
use cellblock_session::Session;
use serde_json::{Map, Value, json};
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};
use tempfile::TempDir;

/// The canary process, and the secrets behind its doors.
pub(crate) struct Ground {
    doors: Map<String, Value>,
    tokens: Map<String, Value>,
    directory: TempDir,
    canary: Child,
}

impl Ground {
    pub(crate) fn new(stage: &Stage) -> Ground {
        let directory = new_directory();
        let script = directory.path().join("canary.py");
        fs::write(&script, include_str!("canary.py")).unwrap();
        let mut command = Command::new(python());
        command
            .arg("-I")
            .arg(&script)
            .arg(directory.path())
            .arg(token())
            .env("CANARY", token());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut canary = Child::start(&mut command);
        let mut said = String::new();
        BufReader::new(canary.0.stdout.take().unwrap())
            .read_line(&mut said)
            .unwrap();
        let mut said: Map<String, Value> =
            serde_json::from_str(&said).expect("the canary did not come up");
        let mut part = |name| match said.remove(name) {
            Some(Value::Object(part)) => part,
            other => panic!("{other:?}"),
        };
        let (mut doors, mut tokens) = (part("doors"), part("tokens"));
        // A secret in the memory of this very process, for as long as it lives.
        let secret: &'static str = token().leak();
        doors.insert("host".to_owned(), std::process::id().into());
        doors.insert("host_address".to_owned(), (secret.as_ptr().addr()).into());
        doors.insert("inherited".to_owned(), stage.descriptor.0.into());
        doors.insert(
            "key".to_owned(),
            json!(stage.key.as_ref().map(|(name, _)| name)),
        );
        tokens.insert("host_memory".to_owned(), secret.into());
        tokens.insert("variable".to_owned(), stage.variable.clone().into());
        tokens.insert("inherited".to_owned(), stage.descriptor.1.clone().into());
        if let Some((name, secret)) = &stage.key {
            tokens.insert("key".to_owned(), secret.clone().into());
            tokens.insert("key_name".to_owned(), name.clone().into());
        }
        tokens.insert("port".to_owned(), format!("{}.", doors["tcp"]).into());
        Ground {
            doors,
            tokens,
            directory,
            canary,
        }
    }

    /// Whether this machine has what the snippet is after.
    pub(crate) fn has(&self, snippet: &Snippet) -> bool {
        let door = match snippet.canary() {
            "key_name" => "key",
            "mailbox_gone" => "mailbox",
            "attribute" | "attribute_secret" => {
                return marks::has_attributes(self.directory.path());
            }
            other => other,
        };
        match self.doors.get(door) {
            Some(Value::Null | Value::Bool(false)) => false,
            _ => door != "kernel_log" || self.tokens.contains_key("kernel_log"),
        }
    }

    /// Runs a snippet behind these walls: does it reach the canary? With what it said, for a person.
    pub(crate) fn reaches(&self, snippet: &Snippet, isolation: &Isolation) -> (bool, String) {
        self.reaches_from(Start::Session, snippet, isolation)
    }

    /// The same from a session or a fork of one.
    pub(crate) fn reaches_from(
        &self,
        start: Start,
        snippet: &Snippet,
        isolation: &Isolation,
    ) -> (bool, String) {
        let mut scene = Scene::new(self, snippet, isolation);
        let session = behind(isolation.clone(), Limits::default(), &scene.seeds);
        let session = match start {
            Start::Session | Start::Spawned => session,
            Start::Fork => wait(session.fork()).unwrap(),
        };
        let visitor = scene.visit.map(|port| thread::spawn(move || visit(port)));
        let maker = scene.make_names_for(snippet);
        let (stdout, said) = match start {
            Start::Spawned => spawned(&session, snippet, &scene.seeds),
            Start::Session | Start::Fork => in_cell(&session, snippet),
        };
        let visited = visitor
            .map(|visitor| visitor.join().unwrap())
            .unwrap_or_default();
        if let Some(maker) = maker {
            maker.join().unwrap();
        }
        let reached = self.is_reached(snippet, &mut scene, &stdout, &visited);
        wait(session.close());
        scene.clean_up();
        (reached, said)
    }

    fn is_reached(
        &self,
        snippet: &Snippet,
        scene: &mut Scene,
        stdout: &str,
        visited: &str,
    ) -> bool {
        let holds_mark =
            |path: &str| fs::read(path).is_ok_and(|bytes| contains(&bytes, scene.mark.as_bytes()));
        match snippet.canary() {
            file @ ("outside" | "temporary" | "shared") => {
                let path = scene.path(file);
                let reached = holds_mark(&path);
                let _ = fs::remove_file(path);
                reached
            }
            "heard" => within(Duration::from_millis(200), || {
                holds_mark(self.doors["heard"].as_str().unwrap())
            }),
            "death" => within(Duration::from_millis(100), || {
                process(scene.victim.pid()).is_none_or(|found| found.state == 'Z')
            }),
            "score" => scene.fact_of_victim("oom_score_adj").trim() == "777",
            "limit" => scene
                .fact_of_victim("limits")
                .lines()
                .any(|line| line.starts_with("Max open files            7 ")),
            "visit" => visited == scene.mark,
            "neighbour" => contains(
                stdout.as_bytes(),
                format!("CANARY:{}", scene.mark).as_bytes(),
            ),
            "neighbour_closed" => scene
                .neighbour
                .as_ref()
                .is_some_and(|(neighbour, _)| permissions_of(neighbour.workspace()) == 0),
            "neighbour_death" => scene
                .neighbour
                .take()
                .is_some_and(|(neighbour, pid)| !is_still(&neighbour, pid)),
            mark if marks::OF_FILES.contains(&mark) => scene
                .marked
                .as_ref()
                .is_some_and(|marked| marked.is_reached(mark, stdout)),
            queue if OF_QUEUES.contains(&queue) => scene
                .queue
                .as_ref()
                .is_some_and(|made| made.is_reached(queue)),
            name => {
                let token = self.tokens[name].as_str().unwrap();
                stdout.contains("CANARY:") && stdout.contains(token)
            }
        }
    }
}

impl Drop for Ground {
    /// When nobody speaks to it any more, the canary takes its segments and queues away.
    fn drop(&mut self) {
        drop(self.canary.0.stdin.take());
        within(Duration::from_secs(2), || {
            process(self.canary.pid()).is_none_or(|found| found.state == 'Z')
        });
    }
}

/// What one run has for itself.
struct Scene {
    seeds: Map<String, Value>,
    /// A text that only this run knows.
    mark: String,
    victim: Child,
    visit: Option<u16>,
    neighbour: Option<(Session, u64)>,
    marked: Option<Marked>,
    queue: Option<Queue>,
}

impl Scene {
    fn new(test_directory: &Ground, snippet: &Snippet, isolation: &Isolation) -> Scene {
        let (mark, victim) = (token(), Child::sleeping());
        let mut doors = test_directory.doors.clone();
        let mut door = |name: &str, value: Value| drop(doors.insert(name.to_owned(), value));
        door("mark", mark.clone().into());
        door("victim", victim.pid().into());
        door(
            "outside",
            test_directory.directory.path().join(&mark).to_str().into(),
        );
        door("temporary", format!("/tmp/cellblock-{mark}").into());
        door("shared", format!("/dev/shm/cellblock-{mark}").into());
        let visit = (snippet.canary() == "visit").then(free_port);
        door("visit", json!(visit));
        let neighbour =
            (snippet.family == "neighbours").then(|| start_neighbour(&mark, isolation, &mut door));
        let marked = marks::OF_FILES
            .contains(&snippet.canary())
            .then(|| Marked::new(test_directory.directory.path(), &mark));
        if let Some(marked) = &marked {
            door("marked", marked.file.to_str().into());
            door("names", marked.directory.to_str().into());
        }
        let queue = OF_QUEUES
            .contains(&snippet.canary())
            .then(|| Queue::new(&mark));
        if let Some(queue) = &queue {
            door("own_queue", queue.number.into());
            door("own_mailbox", queue.name.clone().into());
        }
        let seeds = Map::from_iter([("canary".to_owned(), Value::Object(doors))]);
        Scene {
            seeds,
            mark,
            victim,
            visit,
            neighbour,
            marked,
            queue,
        }
    }

    fn path(&self, name: &str) -> String {
        self.seeds["canary"][name].as_str().unwrap().to_owned()
    }

    /// Makes files with a secret name, for a snippet that listens for names.
    fn make_names_for(&self, snippet: &Snippet) -> Option<thread::JoinHandle<()>> {
        let marked = self
            .marked
            .as_ref()
            .filter(|_| snippet.canary() == "name")?;
        let (directory, name) = (marked.directory.clone(), marked.name.clone());
        Some(thread::spawn(move || {
            Marked::make_names(&directory, &name);
        }))
    }

    /// What was there for this run, and what a neighbour without walls left on the host.
    fn clean_up(&mut self) {
        if let Some(marked) = &self.marked {
            marked.clean_up();
        }
        if let Some(queue) = &self.queue {
            queue.remove();
        }
        if let Some((neighbour, _)) = self.neighbour.take() {
            wait(neighbour.close());
        }
        for name in ["neighbour_file", "neighbour_memory"] {
            if let Some(path) = self.seeds["canary"][name].as_str() {
                let _ = fs::remove_file(path);
            }
        }
    }

    fn fact_of_victim(&self, file: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{file}", self.victim.pid())).unwrap()
    }
}

/// Where a snippet runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Session,
    Fork,
    /// A process beside the interpreter.
    Spawned,
}

const SNIPPET_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a snippet as a cell. Returns what it wrote, and what a person wants to know of it.
fn in_cell(session: &Session, snippet: &Snippet) -> (String, String) {
    let result = run(session, Cell::new(snippet.code).timeout(SNIPPET_TIMEOUT));
    let error = result.error.map(|error| error.repr).unwrap_or_default();
    let said = format!(
        "{} {:?} {} {error}",
        result.status,
        result.signal,
        result.output.trim()
    );
    (result.stdout, said)
}

/// Runs a snippet as a program that the host has a session spawn, with the same seeds.
fn spawned(session: &Session, snippet: &Snippet, seeds: &Map<String, Value>) -> (String, String) {
    let seeds = serde_json::to_string(seeds).unwrap();
    let program = format!(
        "import json\nglobals().update(json.loads({}))\n{}",
        serde_json::to_string(&seeds).unwrap(),
        snippet.code
    );
    wait(session.put_file("attack.py", program.into_bytes())).unwrap();
    let python = session.python().to_str().unwrap().to_owned();
    let spawn = Spawn::new([python, "attack.py".to_owned()]).timeout(SNIPPET_TIMEOUT);
    let process = wait(session.spawn(spawn)).unwrap();
    let output = wait(process.output());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let stdout = text(&output.stdout);
    let (end, errors) = (&output.end, text(&output.stderr));
    let said = format!("{end:?} {stdout} {errors}");
    (stdout, said)
}

/// Another session behind the same walls, whose secret is `mark`.
fn start_neighbour(
    mark: &str,
    isolation: &Isolation,
    door: &mut impl FnMut(&str, Value),
) -> (Session, u64) {
    let names = json!({
        "file": format!("/tmp/neighbour-{mark}"),
        "memory": format!("/dev/shm/neighbour-{mark}"),
        "socket": format!("neighbour-{mark}"),
    });
    let seeds = Map::from_iter([
        ("names".to_owned(), names.clone()),
        ("secret".to_owned(), mark.into()),
    ]);
    let session = behind(isolation.clone(), Limits::default(), &seeds);
    let result = run(&session, include_str!("neighbour.py"));
    let said: Value = serde_json::from_str(&result.stdout).unwrap_or_default();
    door("neighbour_file", names["file"].clone());
    door("neighbour_memory", names["memory"].clone());
    door("neighbour_socket", names["socket"].clone());
    door("neighbour_workspace", session.workspace().to_str().into());
    door("neighbour_port", said["port"].clone());
    door("neighbour_pid", said["pid"].clone());
    let pid = said["pid"].as_u64().unwrap_or_default();
    (session, pid)
}

/// Whether a session goes on with the same interpreter.
fn is_still(session: &Session, pid: u64) -> bool {
    let value = run_if_alive(session, "import os; os.getpid()").and_then(|result| result.value);
    value.is_some_and(|value| value.repr == pid.to_string())
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// What a service of the session's says to the host, if it can be reached at all.
fn visit(port: u16) -> String {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(2) {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
            let mut text = String::new();
            let _ = stream.read_to_string(&mut text);
            return text;
        }
        thread::sleep(Duration::from_millis(5));
    }
    String::new()
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

//! Rooms for installers, and for what packages bring to be run: sessions, with every wall there is.

use crate::refusals::Refusals;
use cellblock_env::{Cancel, Dirs, Failed, NoRoom, OpenRoom, Order, Room, Strength, Walls};
use cellblock_protocol::{
    Cell, CellResult, Event, Isolation, Limits, NetworkRule, Rung, SessionOptions, Status, Strategy,
};
use cellblock_session::{BadProxy, Error, Preload, Proxies, Python, Running, Runtime, Session};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How soon a cancelled command is noticed.
const BEAT: Duration = Duration::from_millis(50);

/// What runs in there: a command, with its output as it comes. `subprocess` refuses installers in a session, for they cannot work
/// there; these can.
const SETUP: &str = "\
def launch(command, variables):
    import os
    surroundings = {name: os.environ[name] for name in os.environ if name.lower().endswith('_proxy')}
    home = os.environ.get('TMPDIR', '/tmp')
    surroundings.update(PATH='/usr/local/bin:/usr/bin:/bin', LANG='C.UTF-8', HOME=home, TMPDIR=home)
    surroundings.update(variables)
    child = os.posix_spawn(command[0], command, surroundings)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ended:
        raise SystemExit(ended)
";

/// Sessions that see an interpreter, what an installer needs and a directory, and reach the package index. No file of the user's is
/// there.
#[derive(Debug)]
pub(crate) struct WalledRooms {
    dirs: Dirs,
}

impl WalledRooms {
    pub(crate) fn new(dirs: Dirs) -> WalledRooms {
        WalledRooms { dirs }
    }

    async fn enter(&self, room: &Room) -> Result<Session, NoRoom> {
        let proxies = proxies(room).map_err(|error| NoRoom::NoWalls(error.to_string()))?;
        let mut prefixes = room.interpreter.directories();
        prefixes.extend(room.shown.iter().cloned());
        let python = Python {
            executable: room.interpreter.executable.clone(),
            prefixes,
            packages: false,
            font_cache: None,
        };
        let isolation = Isolation {
            rung: (room.strength == Strength::Full).then_some(Rung::Full),
            ..Isolation::default()
        };
        let options = SessionOptions {
            workspace: Some(room.directory.clone()),
            strategy: Strategy::Direct,
            isolation: isolation.clone(),
            network: rules(&room.hosts).map_err(NoRoom::Failed)?,
            limits: Limits {
                wall: room.limit,
                disk: 32 << 30,
                memory: 4 << 30,
                processes: 256,
                ..Limits::default()
            },
            setup: Some(SETUP.to_owned()),
            ..SessionOptions::default()
        };
        let runtime = Runtime::builder(python, &self.dirs.state, &self.dirs.cache)
            .isolation(isolation)
            .preload(Preload::None)
            .proxies(proxies)
            .start()
            .await
            .map_err(no_room)?;
        runtime.open(options).await.map_err(no_room)
    }
}

impl Walls for WalledRooms {
    fn open(&self, room: &Room) -> Result<Box<dyn OpenRoom>, NoRoom> {
        // Whoever makes an environment is on a thread of its own, which may wait.
        let here = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| NoRoom::Failed(error.to_string()))?;
        let session = here.block_on(self.enter(room))?;
        let directory = match session.rung() {
            Rung::Full => PathBuf::from("/workspace"),
            Rung::Landlock | Rung::None => session.workspace().to_owned(),
        };
        Ok(Box::new(WalledRoom {
            session,
            directory,
            limit: room.limit,
            here,
        }))
    }
}

/// A session for one command after the other.
struct WalledRoom {
    session: Session,
    directory: PathBuf,
    limit: Duration,
    here: tokio::runtime::Runtime,
}

impl OpenRoom for WalledRoom {
    fn directory(&self) -> &Path {
        &self.directory
    }

    fn run(
        &mut self,
        order: &Order,
        cancel: &Cancel,
        line: &mut dyn FnMut(&str),
    ) -> Result<(), Failed> {
        let text = |word: &OsStr| word.to_string_lossy().into_owned();
        let command: Vec<String> = order.command.iter().map(|word| text(word)).collect();
        let variables: serde_json::Map<String, Value> = order
            .variables
            .iter()
            .map(|(name, value)| (text(name), json!(text(value))))
            .collect();
        // What is JSON here, texts in lists and objects, is Python as well.
        let code = format!("launch({}, {})", json!(command), json!(variables));
        let mut refusals = Refusals::of(&self.session);
        let ran = self.here.block_on(async {
            let running = self.session.start(Cell::new(code));
            let running = running.map_err(|error| error.to_string())?;
            let heard = attend(&self.session, running, cancel, &mut refusals, line).await?;
            how_it_ended(&heard, self.limit)
        });
        ran.map_err(|status| Failed {
            status,
            unreached: refusals.collect(),
        })
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        let file = self.here.block_on(self.session.get_file(name));
        file.map_err(|error| error.to_string())
    }
}

impl Drop for WalledRoom {
    fn drop(&mut self) {
        self.here.block_on(self.session.close());
    }
}

fn no_room(error: Error) -> NoRoom {
    if error.is_lack_of_walls() {
        NoRoom::NoWalls(error.to_string())
    } else {
        NoRoom::Failed(error.to_string())
    }
}

/// Whom nobody asks for needs no proxy, whatever that is.
fn proxies(room: &Room) -> Result<Proxies, BadProxy> {
    if room.hosts.is_empty() {
        return Ok(Proxies::default());
    }
    let asked = &room.proxies;
    let (http, https) = (asked.http.as_deref(), asked.https.as_deref());
    Proxies::new(http, https, &asked.without)
}

/// The index may stand in the user's own network: he named it.
fn rules(hosts: &[String]) -> Result<Vec<NetworkRule>, String> {
    let rule = |host: &String| format!("{host} private").parse::<NetworkRule>();
    hosts
        .iter()
        .map(|host| rule(host).map_err(|error| format!("the package index {host}: {error}")))
        .collect()
}

async fn attend(
    session: &Session,
    mut running: Running,
    cancel: &Cancel,
    refusals: &mut Refusals,
    line: &mut dyn FnMut(&str),
) -> Result<Box<CellResult>, String> {
    let mut pending = String::new();
    loop {
        // A cancelled wait for an event loses none.
        let event = tokio::time::timeout(BEAT, running.next()).await;
        if cancel.is_cancelled() {
            session.interrupt();
            return Err("it was cancelled".to_owned());
        }
        refusals.listen();
        match event {
            Ok(Some(Event::Stdout { text } | Event::Stderr { text })) => {
                pending.push_str(&text);
                while let Some(end) = pending.find('\n') {
                    line(pending[..end].trim_end());
                    pending.drain(..=end);
                }
                // A line without an end is none.
                if pending.len() > 1 << 16 {
                    pending.clear();
                }
            }
            Ok(Some(Event::Result { result })) => {
                if !pending.is_empty() {
                    line(pending.trim_end());
                }
                return Ok(result);
            }
            Ok(Some(Event::Error { message, .. })) => return Err(message),
            Ok(None) => return Err("nothing was heard of its end".to_owned()),
            Ok(Some(_)) | Err(_) => {}
        }
    }
}

fn how_it_ended(result: &CellResult, limit: Duration) -> Result<(), String> {
    match result.status {
        Status::Success => Ok(()),
        Status::Failure => {
            let code = result.error.as_ref().map(|error| error.value.as_str());
            let code = code.unwrap_or("1");
            Err(match code.strip_prefix('-') {
                Some(signal) => format!("killed by signal {signal}"),
                None => format!("exit {code}"),
            })
        }
        Status::Timeout => Err(format!("it did not end in {} min", limit.as_secs() / 60)),
        Status::Crashed | Status::Interrupted => {
            let why = result.error.as_ref().map(|error| error.value.as_str());
            Err(why.unwrap_or("its process ended").to_owned())
        }
    }
}

//! Building packages from source: code of strangers, so it runs in a session, behind every wall there is.

use cellblock_env::{Builder, Cancel, Dirs, Order};
use cellblock_protocol::{
    Cell, CellResult, Event, Isolation, Limits, NetworkRule, Rung, SessionOptions, Status, Strategy,
};
use cellblock_session::{Preload, Python, Running, Runtime, Session};
use serde_json::json;
use std::ffi::OsStr;
use std::time::Duration;

/// Compilers take long; an hour means that it hangs.
const LIMIT: Duration = Duration::from_secs(3600);
/// How soon a cancelled build is noticed.
const BEAT: Duration = Duration::from_millis(100);

/// What runs in there: the command, with its output as it comes.
const SCRIPT: &str = "\
import os
surroundings = {**{name: os.environ[name] for name in os.environ if name.lower().endswith('_proxy')}, **variables}
surroundings.update(PATH='/usr/local/bin:/usr/bin:/bin', HOME=os.environ.get('TMPDIR', '/tmp'), LANG='C.UTF-8')
surroundings['TMPDIR'] = surroundings['HOME']
ended = original_run(command, surroundings)
if ended:
    raise SystemExit(ended)
";

/// `subprocess` refuses installers in a session, for they cannot work there; this one can.
const SETUP: &str = "\
def original_run(command, surroundings):
    import os
    child = os.posix_spawn(command[0], command, surroundings)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
";

/// Builds in sessions that see the interpreter, the installer and the scratch directory, and reach the package index. No file of the
/// user's is there.
#[derive(Debug)]
pub(crate) struct WalledBuilder {
    dirs: Dirs,
}

impl WalledBuilder {
    pub(crate) fn new(dirs: Dirs) -> WalledBuilder {
        WalledBuilder { dirs }
    }

    async fn run(
        &self,
        order: &Order,
        cancel: &Cancel,
        line: &mut dyn FnMut(&str),
    ) -> Result<(), String> {
        let words = |error: &dyn std::error::Error| error.to_string();
        let mut prefixes = order.interpreter.directories();
        prefixes.extend(order.shown.iter().cloned());
        let python = Python {
            executable: order.interpreter.executable.clone(),
            prefixes,
            packages: false,
            font_cache: None,
        };
        // The best walls there are, never none. A way to the network can be guarded only behind all of them.
        let isolation = Isolation {
            rung: (!order.hosts.is_empty()).then_some(Rung::Full),
            ..Isolation::default()
        };
        let runtime = Runtime::builder(python, &self.dirs.state, &self.dirs.cache)
            .isolation(isolation.clone())
            .preload(Preload::None)
            .start()
            .await
            .map_err(|error| words(&error))?;
        let text = |word: &OsStr| word.to_string_lossy().into_owned();
        let command: Vec<String> = order.command.iter().map(|word| text(word)).collect();
        let variables: serde_json::Map<_, _> = order
            .variables
            .iter()
            .map(|(name, value)| (text(name), json!(text(value))))
            .collect();
        let mut options = SessionOptions {
            workspace: Some(order.directory.clone()),
            strategy: Strategy::Direct,
            isolation,
            network: rules(&order.hosts)?,
            limits: Limits {
                wall: LIMIT,
                disk: 8 << 30,
                memory: 4 << 30,
                processes: 256,
                ..Limits::default()
            },
            setup: Some(SETUP.to_owned()),
            ..SessionOptions::default()
        };
        options.seed.insert("command".to_owned(), json!(command));
        options
            .seed
            .insert("variables".to_owned(), serde_json::Value::Object(variables));
        let session = runtime.open(options).await.map_err(|error| words(&error))?;
        let running = session
            .start(Cell::new(SCRIPT))
            .map_err(|error| words(&error))?;
        let outcome = attend(&session, running, cancel, line).await;
        session.close().await;
        outcome
    }
}

impl Builder for WalledBuilder {
    fn build(
        &self,
        order: &Order,
        cancel: &Cancel,
        line: &mut dyn FnMut(&str),
    ) -> Result<(), String> {
        // Whoever makes an environment is on a thread of its own, which may wait.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        runtime.block_on(self.run(order, cancel, line))
    }
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
    line: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let mut pending = String::new();
    loop {
        // A cancelled wait for an event loses none.
        let event = tokio::time::timeout(BEAT, running.next()).await;
        if cancel.is_cancelled() {
            session.interrupt();
            return Err("it was cancelled".to_owned());
        }
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
            Ok(Some(Event::Result { result })) => return how_it_ended(&result),
            Ok(Some(Event::Error { message, .. })) => return Err(message),
            Ok(None) => return Err("nothing was heard of its end".to_owned()),
            Ok(Some(_)) | Err(_) => {}
        }
    }
}

fn how_it_ended(result: &CellResult) -> Result<(), String> {
    match result.status {
        Status::Success => Ok(()),
        Status::Failure => {
            let code = result.error.as_ref().map(|error| error.value.as_str());
            Err(format!("exit {}", code.unwrap_or("1")))
        }
        Status::Timeout => Err(format!("it did not end in {} min", LIMIT.as_secs() / 60)),
        Status::Crashed | Status::Interrupted => Err("its process ended".to_owned()),
    }
}

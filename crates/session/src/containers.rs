//! Sessions in containers: the same session, whose head lives behind the walls of an engine's.

use crate::Error;
use crate::actor::Command;
use crate::assembly::{Standing, assemble, prepare};
use crate::container::{Containment, Log};
use crate::disk::Processes;
use crate::file_history::Asked;
use crate::fork::Lineage;
use crate::guest;
use crate::home::Home;
use crate::journal::{self, PythonUsed, SessionJournal};
use crate::own_files::Files;
use crate::packages::Packages;
use crate::runtime::{claim, next_number, remove_orphans, session_directory};
use crate::session::{MAX_LOG_EVENTS, Session, Shared};
use crate::sockets::Sockets;
use crate::telephone::{self, Telephone};
use crate::watch::Watcher;
use crate::ways_out::{self, Doors};
use crate::workspace::Workspace;
use cellblock_docker::{Engine, Mount, Plan};
use cellblock_protocol::{ContainerOptions, Rung, SessionOptions, import_statement};
use cellblock_sandbox::{private_file, remove_directory};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc};
use tokio::time::timeout;

/// Starting a container and a Python in it, on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Memory of our own in a container: process 1, and the kernel's for all.
const OWN_MEMORY: u64 = 64 << 20;
/// Our own processes in a container, and what the interpreter starts for itself.
const OWN_PROCESSES: u64 = 4;

const GUEST: &str = "/run/cellblock/guest";
const DOOR: &str = "/run/cellblock/door";
const START: &str = "import sys; sys.path.insert(0, sys.argv[1]); from cellblock_guest import container; sys.path.pop(0); container.main(sys.argv[2], int(sys.argv[3]), sys.argv[4:])";

/// Opens sessions in containers of one engine. A handle: clones are the same.
#[derive(Clone, Debug)]
pub struct Containers {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    engine: Engine,
    state: PathBuf,
    cache: PathBuf,
    watcher: Arc<Watcher>,
}

impl Containers {
    /// With this engine; `state` keeps workspaces, `cache` what can be made again. Nothing is started.
    pub fn new(engine: Engine, state: impl Into<PathBuf>, cache: impl Into<PathBuf>) -> Containers {
        let state = state.into();
        let cache = cache.into();
        // Where they are not ours, opening a session says so.
        if claim(&state, &cache).is_ok() {
            remove_orphans(&state.join("sessions"));
        }
        let inner = Inner {
            engine,
            state,
            cache,
            watcher: Watcher::new(),
        };
        Containers {
            inner: Arc::new(inner),
        }
    }

    /// Makes a session in a container of its own.
    pub async fn open(&self, options: SessionOptions) -> Result<Session, Error> {
        options.validate()?;
        ways_out::refuse_addresses(&options.network)?;
        timeout(START_LIMIT, self.inner.open(options))
            .await
            .unwrap_or_else(|_| {
                Err(Error::System {
                    what: "starting a container",
                    source: std::io::ErrorKind::TimedOut.into(),
                })
            })
    }
}

impl Inner {
    async fn open(&self, mut options: SessionOptions) -> Result<Session, Error> {
        let imports = options.imports.iter().map(|entry| import_statement(entry));
        let imports = imports.collect::<Result<Vec<_>, _>>()?;
        let number = next_number();
        let id = options
            .session
            .get_or_insert_with(|| format!("d{}", number + 1))
            .clone();
        let wanted = options.container.clone().unwrap_or_default();
        claim(&self.state, &self.cache)?;
        let workspace = Arc::new(match &options.workspace {
            Some(path) => Workspace::given(path)?,
            None => Workspace::fresh(&self.state, &id)?,
        });
        let directory = session_directory(&self.state, &id, number)?;
        let draft = Draft::new(&directory, &workspace);
        let telephone = Telephone::new(&directory)?;
        let doors = Doors::of(&options);
        let place = Place {
            name: format!("cellblock-{id}-{}-{number}", std::process::id()),
            workspace: &workspace,
            directory: &directory,
            telephone: telephone.directory(),
        };
        let plan = self.plan(&options, &wanted, &doors, place)?;
        let (logs, _) = broadcast::channel(MAX_LOG_EVENTS);
        let log = wanted.stream_container_output.then(|| Log {
            label: id.clone(),
            readers: logs.clone(),
        });
        let container = self.engine.create(&plan).await?;
        let containment = Containment::start(container, log).await?;
        let init = tokio::select! {
            biased;
            init = telephone.answer() => init?,
            why = containment.why_ended() => {
                return Err(Error::Refused(format!("Python did not start in the image {}: {why}", wanted.image)));
            }
        };
        drop(telephone);
        let first = telephone::caller(&init);
        let init_again = init
            .try_clone()
            .map_err(Error::system("sharing a descriptor"))?;
        containment.ends_with_engine(init_again);
        let (mut near, far) = Sockets::to_container(init)?;
        near.hand_over(far).await?;
        let head = match near.up().await {
            Ok((head, _)) => head,
            Err(_) => {
                let why = containment.why_lost().await;
                return Err(Error::Refused(format!(
                    "Python did not start in the image {}: {why}",
                    wanted.image
                )));
            }
        };
        let born = near.with(None, Processes::of_container(first), head);
        let limit = options.limits.disk;
        let files = Files::watch(&workspace, &self.watcher, &directory, limit, Asked::Never);
        let files = files.await?;
        let (commands, receiver) = mpsc::unbounded_channel::<Command>();
        // From here on the session's own end takes it away.
        draft.keep();
        let mut actor = assemble(
            &id,
            options.clone(),
            Standing {
                rung: Rung::None,
                isolation: "docker".to_owned(),
                python: "python3".into(),
            },
            Home::Container(containment),
            born,
            files,
            (workspace, directory),
            Lineage::first(0),
        );
        let python = PythonUsed {
            executable: "python3".into(),
            version: String::new(),
            packages: true,
        };
        let journal = journal::begin(&self.state, python, &actor, &options, &logs);
        let shared = Arc::new(Shared {
            id,
            workspace: Arc::clone(&actor.shared.workspace),
            rung: Rung::None,
            logs,
            connections: broadcast::channel(MAX_LOG_EVENTS).0,
            end: OnceLock::new(),
            journal: journal.clone(),
            python: "python3".into(),
            packages: Packages::default(),
            wall: options.limits.wall,
        });
        actor.ways_out = doors.serve(std::mem::take(&mut actor.opened), &shared)?;
        actor.shared = Arc::clone(&shared);
        actor.commands = receiver;
        actor.checkpoints.never = true;
        prepare(&mut actor, imports, doors.environment()).await?;
        actor.journal = SessionJournal::new(journal);
        tokio::spawn(actor.serve());
        Ok(Session { shared, commands })
    }

    /// What the engine is asked for.
    fn plan(
        &self,
        options: &SessionOptions,
        wanted: &ContainerOptions,
        doors: &Doors,
        place: Place<'_>,
    ) -> Result<Plan, Error> {
        let refuse = |problem: std::io::Error| Error::Workspace {
            path: place.workspace.path().to_owned(),
            problem: problem.to_string(),
        };
        // What it writes shall belong to whom the directory belongs to.
        let owner = place.workspace.directory().own_stat().map_err(refuse)?;
        let limits = &options.limits;
        let mut mounts = vec![
            Mount::Writable(place.workspace.path().to_owned(), "/workspace"),
            Mount::Readable(guest::lay_out_sources(&self.cache)?, GUEST),
            Mount::Readable(place.telephone.to_owned(), DOOR),
            Mount::Volume(wanted.volume.clone(), "/environment"),
        ];
        let mut command: Vec<String> = ["python3", "-I", "-B", "-X", "utf8", "-c", START, GUEST]
            .map(str::to_owned)
            .to_vec();
        command.push(format!("{DOOR}/{}", Telephone::NAME));
        command.push(limits.memory.to_string());
        if !options.network.is_empty() {
            let (addresses, names) = doors.addresses();
            command.extend(addresses);
            mounts.push(Mount::Readable(
                readable_file(place.directory, "hosts", &names)?,
                "/etc/hosts",
            ));
        }
        let home = ["HOME", "TMPDIR", "MPLCONFIGDIR"].map(|name| (name, "/tmp"));
        let environment = home.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok(Plan {
            name: place.name,
            image: wanted.image.clone(),
            command,
            user: (owner.st_uid, owner.st_gid),
            directory: "/workspace".to_owned(),
            environment: BTreeMap::from(environment),
            mounts,
            memory: limits.memory.saturating_add(OWN_MEMORY),
            cpus: wanted.cpus,
            processes: limits.processes + OWN_PROCESSES,
            open_files: limits.open_files,
            temporary: limits.disk.min(limits.memory / 2),
        })
    }
}

/// Where a session in a container is on the host.
struct Place<'a> {
    /// Of its container.
    name: String,
    workspace: &'a Workspace,
    directory: &'a Path,
    telephone: &'a Path,
}

/// Directories of a session that may come to nothing; then they go. What is in a workspace stays.
struct Draft {
    directory: PathBuf,
    workspace: Option<PathBuf>,
}

impl Draft {
    fn new(directory: &Path, workspace: &Workspace) -> Draft {
        Draft {
            directory: directory.to_owned(),
            workspace: (!workspace.is_given()).then(|| workspace.path().to_owned()),
        }
    }

    fn keep(mut self) {
        self.directory.clear();
        self.workspace = None;
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.directory.as_os_str().is_empty() {
            let _ = remove_directory(&self.directory);
        }
        if let Some(workspace) = &self.workspace {
            let _ = std::fs::remove_dir(workspace);
        }
    }
}

fn readable_file(directory: &Path, name: &str, text: &str) -> Result<PathBuf, Error> {
    let path = directory.join(name);
    // The container's user may be another; nobody else can enter the session's directory.
    let everyone = std::fs::Permissions::from_mode(0o644);
    private_file(&path)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.set_permissions(everyone)
        })
        .map_err(|source| Error::Storage {
            what: "writing",
            path: path.clone(),
            source,
        })?;
    Ok(path)
}

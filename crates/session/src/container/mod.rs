//! Sessions in containers: the session's processes run in a container of an engine instead of behind
//! the walls of this machine.

pub(crate) mod image_python;
pub(crate) mod running;
mod socket;

use crate::events::SessionEvents;
use crate::files::found_processes::Processes;
use crate::files::history::ChangeNotice;
use crate::files::kept_workspaces::remove_if_empty;
use crate::files::watch::Watcher;
use crate::files::watched_files::WatchedFiles;
use crate::files::workspace::Workspace;
use crate::journal::{self, PythonUsed};
use crate::network::{self, NetworkListeners};
use crate::packages::{PackageMount, Packages};
use crate::session::Session;
use crate::spawn::fork::Lineage;
use crate::spawn::guest;
use crate::spawn::prepared::{IsolationSummary, Opening, PreparedSession, SessionParts, prepare};
use crate::spawn::process_host::ProcessHost;
use crate::spawn::sockets::Sockets;
use crate::state_directory::{claim, next_number, remove_orphans, session_directory};
use crate::{Error, Refusal, WorkspaceProblem};
use cellblock_docker::{ContainerSpec, Engine, Mount};
use cellblock_protocol::{ContainerOptions, Rung, SessionOptions, import_statement};
use cellblock_sandbox::{private_file, remove_directory};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

use image_python::SessionImage;
use running::ContainerLog;
pub(crate) use running::RunningContainer;
use socket::{ContainerSocket, peer_process};

/// How long the start of a container and of Python in it may take, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// The memory that a container gets beyond the session's limit: for process 1 and the kernel.
const OVERHEAD_MEMORY_BYTES: u64 = 64 << 20;
/// The processes that a container gets beyond the session's limit: process 1, the interpreter, and the
/// threads that the interpreter starts for itself.
const OVERHEAD_PROCESSES: u64 = 4;

/// The directory of the guest's Python code in a container.
const GUEST_TARGET: &str = "/run/cellblock/guest";
/// The directory of the [`ContainerSocket`] in a container.
const SOCKET_TARGET: &str = "/run/cellblock/socket";
/// The directory of the packages that are installed for sessions, in a container.
const PACKAGES_TARGET: &str = "/run/cellblock/packages";
/// The Python code that a container's first process runs.
const START_CODE: &str = "import sys; sys.path.insert(0, sys.argv[1]); from cellblock_guest import container; sys.path.pop(0); container.main(sys.argv[2], int(sys.argv[3]), sys.argv[4:])";

/// Opens sessions in containers of one engine. Cheap to clone: clones share one engine.
#[derive(Clone, Debug)]
pub struct Containers {
    backend: Arc<ContainerBackend>,
}

#[derive(Clone, Debug)]
struct ContainerBackend {
    engine: Engine,
    state: PathBuf,
    cache: PathBuf,
    /// The directory of the host in which packages for sessions are installed.
    packages: Option<PathBuf>,
    watcher: Arc<Watcher>,
}

impl Containers {
    /// Containers of this engine. Workspaces are kept in `state`, files that can be made again in `cache`.
    /// Nothing is started, and the engine is not asked for anything.
    pub fn new(engine: Engine, state: impl Into<PathBuf>, cache: impl Into<PathBuf>) -> Containers {
        let state = state.into();
        let cache = cache.into();
        // A directory that another user owns is reported when a session is opened.
        if claim(&state, &cache).is_ok() {
            remove_orphans(&state.join("sessions"));
        }
        let backend = ContainerBackend {
            engine,
            state,
            cache,
            packages: None,
            watcher: Watcher::new(),
        };
        Containers {
            backend: Arc::new(backend),
        }
    }

    /// Lets sessions see what is installed for them in this directory of the host, from now on and later.
    #[must_use]
    pub fn packages(self, directory: impl Into<PathBuf>) -> Containers {
        let mut backend = (*self.backend).clone();
        backend.packages = Some(directory.into());
        Containers {
            backend: Arc::new(backend),
        }
    }

    /// Opens a session in a container of its own.
    ///
    /// # Errors
    ///
    /// [`Error::Container`] where the engine does not answer or does not have the image, and an error that
    /// names the image where Python does not start in it.
    pub async fn open(&self, options: SessionOptions) -> Result<Session, Error> {
        options.validate()?;
        network::refuse_addresses(&options.network)?;
        timeout(START_TIMEOUT, self.backend.open(options))
            .await
            .unwrap_or_else(|_| {
                Err(Error::System {
                    what: "starting a container",
                    source: std::io::ErrorKind::TimedOut.into(),
                })
            })
    }
}

impl ContainerBackend {
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
            Some(path) => Workspace::in_user_directory(path)?,
            None => Workspace::fresh(&self.state, &id)?,
        });
        let directory = session_directory(&self.state, &id, number)?;
        let cleanup = UnfinishedSession::new(&directory, &workspace);
        let socket = ContainerSocket::new(&directory)?;
        let listeners = NetworkListeners::of(&options);
        let paths = HostPaths {
            workspace: &workspace,
            session: &directory,
            socket: socket.directory(),
        };
        let name = format!("cellblock-{id}-{}-{number}", std::process::id());
        let spec = self.container_spec(name, &options, &wanted, &listeners, paths)?;
        let logs = SessionEvents::new();
        let log = wanted.stream_container_output.then(|| ContainerLog {
            label: id.clone(),
            events: logs.clone(),
        });
        let container = self.engine.create(&spec).await?;
        let container = RunningContainer::start(container, log).await?;
        let init = tokio::select! {
            biased;
            init = socket.accept() => init?,
            why = container.why_ended() => {
                let image = wanted.image.clone();
                return Err(Refusal::ImageStart { image, reason: why }.into());
            }
        };
        drop(socket);
        let init_process = peer_process(&init);
        let second_init = init
            .try_clone()
            .map_err(Error::system("sharing a descriptor"))?;
        container.shut_down_with_engine(second_init);
        let (mut near, far) = Sockets::to_container(init)?;
        near.hand_over(far).await?;
        let head = match near.wait_until_ready().await {
            Ok(ready) => ready.pid,
            Err(_) => {
                let (image, reason) = (wanted.image.clone(), container.why_lost().await);
                return Err(Refusal::ImageStart { image, reason }.into());
            }
        };
        let session = near.with(
            None,
            Processes::of_container(init_process, options.workspace_at.as_path()),
            head,
        );
        let limit = options.limits.disk;
        let files = WatchedFiles::watch(
            &workspace,
            &self.watcher,
            &directory,
            limit,
            ChangeNotice::Never,
        );
        let files = files.await?;
        // From here on the end of the session removes its directories.
        cleanup.disarm();
        let prepared = PreparedSession::new(SessionParts {
            options: &options,
            summary: IsolationSummary {
                rung: Rung::None,
                isolation: "docker".to_owned(),
                python: "python3".into(),
                has_view: false,
                workspace: Some(options.workspace_at.as_path().to_owned()),
            },
            process_host: ProcessHost::Container(container),
            spawned: session,
            files,
            workspace,
            directory,
            lineage: Lineage::first(0),
            logs,
            is_left_running: false,
        });
        let python = PythonUsed {
            executable: "python3".into(),
            version: String::new(),
            packages: true,
        };
        let journal = journal::begin(&self.state, python, prepared.live(), &options);
        let environment = listeners.environment();
        let mut opened = prepared.into_session(Opening {
            id,
            options,
            last_cell: 0,
            journal,
            packages: self
                .package_mount()
                .map_or_else(Packages::default, Packages::mounted),
            image: Some(SessionImage {
                engine: self.engine.clone(),
                name: wanted.image,
            }),
            not_copied: Vec::new(),
            listeners,
            runtime: None,
        })?;
        prepare(&mut opened.actor, imports, environment).await?;
        Ok(opened.serve())
    }

    fn package_mount(&self) -> Option<PackageMount> {
        self.packages.as_ref().map(|source| PackageMount {
            source: source.clone(),
            target: PACKAGES_TARGET.into(),
        })
    }

    /// Makes the description that the engine creates the session's container from.
    fn container_spec(
        &self,
        name: String,
        options: &SessionOptions,
        wanted: &ContainerOptions,
        listeners: &NetworkListeners,
        paths: HostPaths<'_>,
    ) -> Result<ContainerSpec, Error> {
        let refuse =
            |error| Error::workspace(paths.workspace.path(), WorkspaceProblem::System(error));
        // Code runs as the owner of the workspace, so that files it writes belong to that user.
        let owner = paths.workspace.directory().own_stat().map_err(refuse)?;
        let limits = &options.limits;
        let mut mounts = vec![
            Mount::Writable {
                source: paths.workspace.path().to_owned(),
                target: options.workspace_at.to_string(),
            },
            Mount::ReadOnly {
                source: guest::lay_out_sources(&self.cache)?,
                target: GUEST_TARGET.to_owned(),
            },
            Mount::ReadOnly {
                source: paths.socket.to_owned(),
                target: SOCKET_TARGET.to_owned(),
            },
            Mount::Volume {
                name: wanted.volume.clone(),
                target: "/environment".to_owned(),
            },
        ];
        if let Some(packages) = &self.packages {
            mounts.push(Mount::ReadOnly {
                source: packages.clone(),
                target: PACKAGES_TARGET.to_owned(),
            });
        }
        let python = ["python3", "-I", "-B", "-X", "utf8", "-c"];
        let mut command: Vec<String> = python.map(str::to_owned).to_vec();
        command.extend([
            START_CODE.to_owned(),
            GUEST_TARGET.to_owned(),
            format!("{SOCKET_TARGET}/{}", ContainerSocket::FILE_NAME),
            limits.memory.to_string(),
        ]);
        if options.has_network() {
            let (addresses, names) = listeners.addresses();
            command.extend(addresses);
            mounts.push(Mount::ReadOnly {
                source: write_world_readable(paths.session, "hosts", &names)?,
                target: "/etc/hosts".to_owned(),
            });
        }
        let temporary = ["HOME", "TMPDIR", "MPLCONFIGDIR"];
        let mut environment =
            BTreeMap::from(temporary.map(|name| (name.to_owned(), "/tmp".to_owned())));
        if options.workspace_at.home_of().is_some() {
            environment.insert("HOME".to_owned(), options.workspace_at.to_string());
        }
        Ok(ContainerSpec {
            name,
            image: wanted.image.clone(),
            command,
            user_id: owner.st_uid,
            group_id: owner.st_gid,
            working_directory: options.workspace_at.to_string(),
            environment,
            mounts,
            memory_bytes: limits.memory.saturating_add(OVERHEAD_MEMORY_BYTES),
            cpus: limits.cpus.unwrap_or(wanted.cpus),
            max_processes: limits.processes + OVERHEAD_PROCESSES,
            max_open_files: limits.open_files,
            temporary_bytes: limits.disk.min(limits.memory / 2),
        })
    }
}

/// The directories of a session in a container, on the host.
#[derive(Clone, Copy)]
struct HostPaths<'a> {
    workspace: &'a Workspace,
    session: &'a Path,
    socket: &'a Path,
}

/// Removes the directories of a session that did not come to life, when dropped. A workspace that holds
/// files stays.
struct UnfinishedSession {
    directory: PathBuf,
    workspace: Option<PathBuf>,
}

impl UnfinishedSession {
    fn new(directory: &Path, workspace: &Workspace) -> UnfinishedSession {
        UnfinishedSession {
            directory: directory.to_owned(),
            workspace: (!workspace.is_user_directory()).then(|| workspace.path().to_owned()),
        }
    }

    /// Keeps the directories: the session lives.
    fn disarm(mut self) {
        self.directory.clear();
        self.workspace = None;
    }
}

impl Drop for UnfinishedSession {
    fn drop(&mut self) {
        if !self.directory.as_os_str().is_empty() {
            let _ = remove_directory(&self.directory);
        }
        if let Some(workspace) = &self.workspace {
            remove_if_empty(workspace);
        }
    }
}

/// Writes a file that the container's user can read, whatever the umask is.
fn write_world_readable(directory: &Path, name: &str, text: &str) -> Result<PathBuf, Error> {
    let path = directory.join(name);
    // The container's user may be another one. Other users cannot enter the session's directory.
    let world_readable = std::fs::Permissions::from_mode(0o644);
    private_file(&path)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.set_permissions(world_readable)
        })
        .map_err(|source| Error::Storage {
            what: "writing",
            path: path.clone(),
            source,
        })?;
    Ok(path)
}

//! The environments and layers of one user, below the cache directory.

mod archive;
mod environment;
mod locks;
mod request;
mod stored;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use crate::{
    Cancel, Dirs, Error, ForeignPython, InstallProgress, InstallStep, InstallerSandbox,
    Interpreter, Requirements, Search, Variables, dirs,
    find::font_fingerprint,
    install::{
        CACHE_DIRECTORY, EnvironmentBuild, InstallContext, installer_variables, refresh_fonts,
    },
    requirements::{Requirement, is_python_in_range, normalize_name},
};

pub use archive::{EnvironmentArchives, MadeEnvironment};
pub(crate) use archive::{Header, unpack};
pub use environment::{Environment, EnvironmentStatus, Layer, Package, StoredKind};
pub(crate) use environment::{
    Marker, OUTSIDE_WALLS, installed_packages, layer_packages, matplotlib_config, python_of,
    site_packages,
};
pub use locks::InUseLock;
pub(crate) use locks::{FileLock, PartialDirectory};
pub(crate) use request::InstallRequest;
pub use stored::StoredEnvironment;

/// The disk space that all environments together may take by default: 10 GiB.
pub const DEFAULT_BUDGET_BYTES: u64 = 10 << 30;

/// All environments and layers of a user. The name of each directory is made from its interpreter and its
/// lock: the exact versions that the resolver chose. A directory is complete or does not exist, and is never
/// changed.
#[derive(Debug, Clone)]
pub struct Environments {
    dirs: Dirs,
    pub(crate) directory: PathBuf,
    pub(crate) layers: PathBuf,
    pub(crate) requests: PathBuf,
    names: PathBuf,
    tools: PathBuf,
    variables: Variables,
    sandbox: Option<Arc<dyn InstallerSandbox>>,
    budget_bytes: u64,
    pub(crate) archives: Arc<OnceLock<Arc<dyn EnvironmentArchives>>>,
}

impl Environments {
    /// The environments of this process's user.
    pub fn from_process() -> Result<Self, Error> {
        let variables = Variables::from_process();
        let dirs = Dirs::new(&variables)?;
        Ok(Self::new(variables, &dirs))
    }

    /// The environments in these directories. Installers see exactly these variables, without those that
    /// would put packages elsewhere.
    pub fn new(variables: Variables, dirs: &Dirs) -> Self {
        Self {
            dirs: dirs.clone(),
            directory: dirs.cache.join("environments"),
            layers: dirs.cache.join("layers"),
            requests: dirs.cache.join("requests"),
            names: dirs.state.join("environments"),
            tools: dirs.cache.join("tools"),
            variables: installer_variables(&variables),
            sandbox: None,
            budget_bytes: DEFAULT_BUDGET_BYTES,
            archives: Arc::default(),
        }
    }

    /// Runs installers, builds from source and first imports in this sandbox. Without one, installers run
    /// unprotected as this user, and packages that have only a source are refused.
    #[must_use]
    pub fn sandbox(mut self, sandbox: Arc<dyn InstallerSandbox>) -> Self {
        self.sandbox = Some(sandbox);
        self
    }

    /// The sandbox that installers run in.
    pub fn installer_sandbox(&self) -> Option<&Arc<dyn InstallerSandbox>> {
        self.sandbox.as_ref()
    }

    /// The disk space that all environments and layers together may take. When a new one is made, the least
    /// recently used ones are removed, never one in use.
    #[must_use]
    pub fn budget(mut self, bytes: u64) -> Self {
        self.budget_bytes = bytes;
        self
    }

    /// Takes environments that other machines made from these archives, and offers those that are made here. For all clones, once; a
    /// second call changes nothing.
    ///
    /// An archive whose files are not as its checks want them is not used, and the environment is made from the index. Paths in scripts
    /// are changed to this machine's. Whatever stores archives can run code in sessions that use them.
    pub fn exchange_with(&self, archives: Arc<dyn EnvironmentArchives>) {
        let _ = self.archives.set(archives);
    }

    /// The directory in which layers are made. It exists after this call. A session must see it from its
    /// start, because a layer may be added later.
    pub fn layers_directory(&self) -> Result<&Path, Error> {
        dirs::create(&self.layers)?;
        Ok(&self.layers)
    }

    /// Removes the download cache of the installers, except while one uses it. For packages that are needed
    /// once and are large.
    pub fn remove_downloads(&self) {
        let cache = self.tools.join(CACHE_DIRECTORY);
        if let Some(_lock) = FileLock::try_acquire(&FileLock::path_for(&cache)) {
            // A cache that stays is used again, or thrown away when it is too large.
            let _ = dirs::remove(&cache);
        }
    }

    /// Whether the environment exists. Reads a few files; starts no program and waits for nothing.
    pub fn status(
        &self,
        interpreter: &Interpreter,
        requirements: &Requirements,
    ) -> EnvironmentStatus {
        let request = new_request(interpreter, requirements, &[]);
        let lock = FileLock::path_for(&request.file(&self.requests));
        match self.load(&request) {
            Some(environment) => EnvironmentStatus::Ready(Box::new(environment)),
            None if FileLock::is_held(&lock) => EnvironmentStatus::Building,
            None => EnvironmentStatus::Missing,
        }
    }

    /// The environment; it is made if it does not exist. That takes seconds to minutes and needs the package
    /// index. If another process makes the same environment, this call waits for it. The same request a
    /// second time asks no resolver.
    ///
    /// Blocks the calling thread: use tokio's `spawn_blocking`. The installers end with the calling thread.
    pub fn make(
        &self,
        interpreter: &Interpreter,
        requirements: &Requirements,
        cancel: &Cancel,
        on_progress: &mut dyn FnMut(InstallProgress),
    ) -> Result<Environment, Error> {
        let request = new_request(interpreter, requirements, &[]);
        let is_current = |environment: &Environment| environment.fonts_are_current(&self.variables);
        if let Some(environment) = self.load(&request).filter(is_current) {
            return Ok(environment);
        }
        check_request(&request)?;
        dirs::create(&self.directory)?;
        dirs::create(&self.requests)?;
        let _lock = self.lock_request(&request, cancel, on_progress)?;
        let context = self.context(interpreter, cancel);
        match self.load(&request) {
            // Another process has made it meanwhile.
            Some(environment) if is_current(&environment) => return Ok(environment),
            Some(environment) => self.refresh_fonts(&context, &environment)?,
            None => {
                let build = EnvironmentBuild::new(self, &request, StoredKind::Environment);
                build.run(&context, on_progress)?;
                // A directory that cannot be removed now is removed the next time.
                let _ = self.collect_garbage(self.budget_bytes);
            }
        }
        self.load(&request)
            .ok_or_else(|| vanished(&request.file(&self.requests)))
    }

    /// Packages for a session that has `installed` already: only the missing ones, in versions that fit to
    /// the installed ones. The layer is made if it does not exist, as by [`Environments::make`].
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] where a requirement excludes the installed version of its package.
    pub fn make_layer(
        &self,
        interpreter: &Interpreter,
        installed: &[Package],
        requirements: &Requirements,
        cancel: &Cancel,
        on_progress: &mut dyn FnMut(InstallProgress),
    ) -> Result<Layer, Error> {
        let request = new_request(interpreter, requirements, installed);
        let context = self.context(interpreter, cancel);
        self.make_requested_layer(&request, &context, on_progress)
    }

    /// The same for a Python on another system. `runner` is a Python of this machine, which uv runs with. Packages of which there
    /// is only the source cannot be had: they would have to be built on that system.
    pub fn make_foreign_layer(
        &self,
        foreign: &ForeignPython,
        runner: &Interpreter,
        installed: &[Package],
        requirements: &Requirements,
        cancel: &Cancel,
        on_progress: &mut dyn FnMut(InstallProgress),
    ) -> Result<Layer, Error> {
        let request = new_request(&foreign.as_interpreter(runner), requirements, installed);
        let context = InstallContext {
            target: Some(foreign),
            ..self.context(runner, cancel)
        };
        self.make_requested_layer(&request, &context, on_progress)
    }

    fn make_requested_layer(
        &self,
        request: &InstallRequest,
        context: &InstallContext<'_>,
        on_progress: &mut dyn FnMut(InstallProgress),
    ) -> Result<Layer, Error> {
        if let Some(layer) = self.load_layer(request) {
            return Ok(layer);
        }
        check_request(request)?;
        dirs::create(&self.layers)?;
        dirs::create(&self.requests)?;
        let _lock = self.lock_request(request, context.cancel, on_progress)?;
        if let Some(layer) = self.load_layer(request) {
            return Ok(layer);
        }
        EnvironmentBuild::new(self, request, StoredKind::Layer).run(context, on_progress)?;
        let layer = self.load_layer(request);
        let _in_use = layer
            .as_ref()
            .and_then(|layer| self.mark_layer_in_use(layer));
        let _ = self.collect_garbage(self.budget_bytes);
        layer.ok_or_else(|| vanished(&request.file(&self.requests)))
    }

    /// Keeps an environment from being removed while the answer lives. `None` for a bare interpreter.
    pub fn mark_in_use(&self, environment: &Environment) -> Option<InUseLock> {
        let is_stored = environment.prefix.starts_with(&self.directory);
        is_stored
            .then(|| InUseLock::acquire(&environment.prefix))
            .flatten()
    }

    /// Keeps a layer from being removed while the answer lives. `None` for an empty layer.
    pub fn mark_layer_in_use(&self, layer: &Layer) -> Option<InUseLock> {
        InUseLock::acquire(layer.path.as_ref()?.parent()?)
    }

    /// The environment that a Python belongs to: one from this store, or the bare interpreter.
    pub fn environment_of(&self, python: &Path) -> Result<Environment, Error> {
        let stored = python
            .parent()
            .and_then(Path::parent)
            .filter(|prefix| prefix.starts_with(&self.directory))
            .and_then(|prefix| Some((prefix, Marker::read(prefix)?)));
        match stored {
            Some((prefix, marker)) => {
                let (interpreter, lock) = (marker.interpreter.clone(), marker.lock.clone());
                Environment::open(prefix, &interpreter, &lock).ok_or_else(|| vanished(prefix))
            }
            None => {
                let search = Search::new(self.variables.clone(), &self.dirs);
                let interpreter = search.explicit(python.to_owned()).find()?;
                Ok(Environment::standard_library(&interpreter))
            }
        }
    }

    /// The id of the environment of this store that a Python belongs to, as [`StoredEnvironment::id`] has it.
    pub fn id_of(&self, python: &Path) -> Option<String> {
        let prefix = python.parent()?.parent()?;
        let name = prefix.strip_prefix(&self.directory).ok()?.to_str()?;
        name.rsplit('-').next().map(str::to_owned)
    }

    /// The packages of a layer, by its path on `sys.path`. Empty for a path outside of this store.
    pub fn packages_of_layer(&self, path: &Path) -> Vec<Package> {
        let directory = path.parent().filter(|d| d.starts_with(&self.layers));
        let marker = directory.and_then(Marker::read);
        marker.map_or_else(Vec::new, |marker| marker.packages)
    }

    fn load(&self, request: &InstallRequest) -> Option<Environment> {
        let lock = request.load_lock(&self.requests)?;
        let directory = self.directory.join(request.directory_name(&lock));
        Environment::open(&directory, &request.interpreter, &lock)
    }

    fn load_layer(&self, request: &InstallRequest) -> Option<Layer> {
        let lock = request.load_lock(&self.requests)?;
        if lock.is_empty() {
            return Some(Layer::empty(request));
        }
        let directory = self.layers.join(request.directory_name(&lock));
        Layer::open(&directory, request, &lock)
    }

    /// Waits until no other process works on the same request.
    fn lock_request(
        &self,
        request: &InstallRequest,
        cancel: &Cancel,
        on_progress: &mut dyn FnMut(InstallProgress),
    ) -> Result<FileLock, Error> {
        let path = FileLock::path_for(&request.file(&self.requests));
        FileLock::acquire(&path, cancel, &mut || {
            let message = "another process is making this environment";
            on_progress(InstallProgress::new(InstallStep::Wait, 0, None, message));
        })
    }

    fn refresh_fonts(
        &self,
        context: &InstallContext<'_>,
        environment: &Environment,
    ) -> Result<(), Error> {
        let prefix = &environment.prefix;
        let mut marker = Marker::read(prefix).ok_or_else(|| vanished(prefix))?;
        // Taken before the search: a font that is installed meanwhile is seen the next time.
        marker.fonts = font_fingerprint(&self.variables);
        refresh_fonts(context, prefix)?;
        marker.write(prefix)
    }

    fn context<'a>(
        &'a self,
        interpreter: &'a Interpreter,
        cancel: &'a Cancel,
    ) -> InstallContext<'a> {
        InstallContext {
            interpreter,
            target: None,
            variables: &self.variables,
            cancel,
            directory: &self.requests,
            tools: &self.tools,
            sandbox: self.sandbox.as_deref(),
        }
    }
}

/// The default environment of this process's user; it is made if it does not exist. The same as
/// [`Environments::make`] with [`Requirements::default_set`].
pub fn default_environment(
    interpreter: &Interpreter,
    cancel: &Cancel,
    on_progress: &mut dyn FnMut(InstallProgress),
) -> Result<Environment, Error> {
    let requirements = Requirements::default_set();
    Environments::from_process()?.make(interpreter, &requirements, cancel, on_progress)
}

/// Whether the default environment of this process's user exists. Waits for nothing, starts no program.
pub fn default_environment_status(interpreter: &Interpreter) -> Result<EnvironmentStatus, Error> {
    Ok(Environments::from_process()?.status(interpreter, &Requirements::default_set()))
}

fn new_request(
    interpreter: &Interpreter,
    requirements: &Requirements,
    installed: &[Package],
) -> InstallRequest {
    InstallRequest {
        requirements: requirements.clone(),
        installed: installed.to_owned(),
        interpreter: interpreter.clone(),
    }
}

/// Refuses at once a request that no resolver could meet.
fn check_request(request: &InstallRequest) -> Result<(), Error> {
    let InstallRequest {
        requirements,
        installed,
        interpreter,
    } = request;
    if let Some(range) = &requirements.requires_python
        && !is_python_in_range(range, interpreter.version)?
    {
        return Err(Error::PythonMismatch {
            wanted: range.clone(),
            version: interpreter.version,
        });
    }
    for text in &requirements.packages {
        // A text that cannot be parsed is left to the resolver: `Requirements::new` takes any.
        let Ok(requirement) = Requirement::parse(text) else {
            continue;
        };
        let name = normalize_name(requirement.name);
        let same_name = |package: &&Package| normalize_name(&package.name) == name;
        if let Some(package) = installed.iter().find(same_name)
            && let Some(wanted) = requirement.conflict_with(&package.version)
        {
            return Err(Error::Conflict {
                name: package.name.clone(),
                installed: package.version.clone(),
                wanted,
            });
        }
    }
    Ok(())
}

fn vanished(path: &Path) -> Error {
    let source = std::io::Error::from(std::io::ErrorKind::NotFound);
    Error::io("use what was just made for", path, source)
}

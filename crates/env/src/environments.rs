//! The environments that were made, and the making of new ones.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    Cancel, Dirs, Environment, Error, InUse, Interpreter, Layer, Package, Progress, Requirements,
    Search, Status, Step, Variables, Walls,
    answer::Request,
    build::Build,
    dirs,
    environment::Marker,
    fonts, install,
    install::Job,
    lock::Lock,
    requirement::{Requirement, is_python_in_range, normalize_name},
    warm_up,
};

/// All environments of a user, below the cache directory. Each has a name made from its interpreter and its lock (the exact
/// versions that a resolver chose), is complete or not there, and is never changed.
#[derive(Debug, Clone)]
pub struct Environments {
    dirs: Dirs,
    pub(crate) directory: PathBuf,
    pub(crate) layers: PathBuf,
    pub(crate) requests: PathBuf,
    pub(crate) names: PathBuf,
    pub(crate) tools: PathBuf,
    pub(crate) variables: Variables,
    pub(crate) installer: Installer,
    walls: Option<Arc<dyn Walls>>,
    pub(crate) budget: u64,
}

/// What to install with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Installer {
    /// uv, fetched with pip where the machine has none; pip where that fails.
    #[default]
    Automatic,
    /// uv or nothing.
    Uv,
    /// venv and pip.
    Pip,
}

/// What all environments together may take, unless told otherwise: 10 GiB.
pub const DEFAULT_BUDGET: u64 = 10 << 30;

impl Environments {
    /// Those of this process's user.
    pub fn from_process() -> Result<Self, Error> {
        let variables = Variables::from_process();
        let dirs = Dirs::new(&variables)?;
        Ok(Self::new(variables, &dirs))
    }

    /// Those in the given surroundings. Installers see exactly these variables, less the few that would
    /// send the packages elsewhere.
    pub fn new(variables: Variables, dirs: &Dirs) -> Self {
        Self {
            dirs: dirs.clone(),
            directory: dirs.cache.join("environments"),
            layers: dirs.cache.join("layers"),
            requests: dirs.cache.join("requests"),
            names: dirs.state.join("environments"),
            tools: dirs.cache.join("tools"),
            variables: install::cleaned(&variables),
            installer: Installer::Automatic,
            walls: None,
            budget: DEFAULT_BUDGET,
        }
    }

    /// Chooses what new environments are made with.
    #[must_use]
    pub fn installer(mut self, installer: Installer) -> Self {
        self.installer = installer;
        self
    }

    /// Says who has walls: behind them installers work, packages of which there is only the source are built, and first imports
    /// happen. Unless told, installers run as they are, and what would have to be built is refused.
    #[must_use]
    pub fn behind(mut self, walls: Arc<dyn Walls>) -> Self {
        self.walls = Some(walls);
        self
    }

    /// Who has walls.
    pub fn walls(&self) -> Option<&Arc<dyn Walls>> {
        self.walls.as_ref()
    }

    /// What all environments together may take on disk. When a new one is made, those that were not used for longest go.
    #[must_use]
    pub fn budget(mut self, bytes: u64) -> Self {
        self.budget = bytes;
        self
    }

    /// The directory below which layers appear. Sessions see it from their birth, so that a layer can come later.
    pub fn layers_directory(&self) -> Result<&Path, Error> {
        dirs::create(&self.layers)?;
        Ok(&self.layers)
    }

    /// What is there now. A few file reads; no Python is started and nothing is waited for.
    pub fn status(&self, interpreter: &Interpreter, requirements: &Requirements) -> Status {
        let request = request(interpreter, requirements, &[]);
        match self.remembered(&request) {
            Some(environment) => Status::Ready(Box::new(environment)),
            None if Lock::is_taken(&Lock::of(&request.file(&self.requests))) => Status::Building,
            None => Status::Missing,
        }
    }

    /// The environment, made if it is not there. This takes seconds to minutes and needs the package index;
    /// if another process makes the same one, that one is waited for and shared. The same request a second time
    /// asks nobody.
    ///
    /// The installers end with the calling thread, so the thread must wait for this call's return.
    pub fn make(
        &self,
        interpreter: &Interpreter,
        requirements: &Requirements,
        cancel: &Cancel,
        report: &mut dyn FnMut(Progress),
    ) -> Result<Environment, Error> {
        let request = request(interpreter, requirements, &[]);
        let current = |environment: &Environment| environment.fonts_are_current(&self.variables);
        if let Some(environment) = self.remembered(&request).filter(current) {
            return Ok(environment);
        }
        admit(&request)?;
        dirs::create(&self.directory)?;
        dirs::create(&self.requests)?;
        let _lock = self.turn(&request, cancel, report)?;
        let job = self.job(interpreter, cancel);
        match self.remembered(&request) {
            // The process that was waited for has made it.
            Some(environment) if current(&environment) => return Ok(environment),
            Some(environment) => self.refresh_fonts(&job, &environment)?,
            None => {
                let build = Build::environment(self, &request);
                build.run(&job, report)?;
                // Whatever it cannot remove now goes the next time.
                let _ = self.collect_garbage(self.budget);
            }
        }
        self.remembered(&request)
            .ok_or_else(|| vanished(&request.file(&self.requests)))
    }

    /// Packages for a session that has these already: only what is missing, in versions that go with what is there.
    /// Made if it is not there, as by [`Environments::make`].
    pub fn make_layer(
        &self,
        interpreter: &Interpreter,
        there: &[Package],
        requirements: &Requirements,
        cancel: &Cancel,
        report: &mut dyn FnMut(Progress),
    ) -> Result<Layer, Error> {
        let request = request(interpreter, requirements, there);
        if let Some(layer) = self.remembered_layer(&request) {
            return Ok(layer);
        }
        admit(&request)?;
        dirs::create(&self.layers)?;
        dirs::create(&self.requests)?;
        let _lock = self.turn(&request, cancel, report)?;
        if let Some(layer) = self.remembered_layer(&request) {
            return Ok(layer);
        }
        let job = self.job(interpreter, cancel);
        Build::layer(self, &request).run(&job, report)?;
        let layer = self.remembered_layer(&request);
        let _used = layer.as_ref().and_then(|layer| self.hold_layer(layer));
        let _ = self.collect_garbage(self.budget);
        layer.ok_or_else(|| vanished(&request.file(&self.requests)))
    }

    /// Keeps an environment from being removed, for as long as the answer lives.
    pub fn hold(&self, environment: &Environment) -> Option<InUse> {
        let ours = environment.prefix.starts_with(&self.directory);
        ours.then(|| InUse::begin(&environment.prefix)).flatten()
    }

    /// The same for a layer.
    pub fn hold_layer(&self, layer: &Layer) -> Option<InUse> {
        InUse::begin(layer.path.as_ref()?.parent()?)
    }

    /// The environment that a Python belongs to: one of those made here, or the bare interpreter.
    pub fn of_python(&self, python: &Path) -> Result<Environment, Error> {
        let made = python
            .parent()
            .and_then(Path::parent)
            .filter(|prefix| prefix.starts_with(&self.directory))
            .and_then(|prefix| Some((prefix, Marker::read(prefix)?)));
        match made {
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

    /// What a layer that was made here brings.
    pub fn packages_of_layer(&self, path: &Path) -> Vec<Package> {
        let directory = path.parent().filter(|d| d.starts_with(&self.layers));
        let marker = directory.and_then(Marker::read);
        marker.map_or_else(Vec::new, |marker| marker.packages)
    }

    fn remembered(&self, request: &Request) -> Option<Environment> {
        let lock = request.recall(&self.requests)?;
        let directory = self.directory.join(request.directory_name(&lock));
        Environment::open(&directory, &request.interpreter, &lock)
    }

    fn remembered_layer(&self, request: &Request) -> Option<Layer> {
        let lock = request.recall(&self.requests)?;
        if lock.is_empty() {
            return Some(Layer::nothing(&request.requirements, &request.there));
        }
        let directory = self.layers.join(request.directory_name(&lock));
        Layer::open(
            &directory,
            &request.interpreter,
            &lock,
            &request.requirements,
            &request.there,
        )
    }

    fn turn(
        &self,
        request: &Request,
        cancel: &Cancel,
        report: &mut dyn FnMut(Progress),
    ) -> Result<Lock, Error> {
        Lock::take(
            &Lock::of(&request.file(&self.requests)),
            cancel,
            &mut || {
                let message = "another process is making this environment";
                report(Progress::new(Step::Wait, 0, None, message));
            },
        )
    }

    fn refresh_fonts(&self, job: &Job<'_>, environment: &Environment) -> Result<(), Error> {
        let prefix = &environment.prefix;
        let mut marker = Marker::read(prefix).ok_or_else(|| vanished(prefix))?;
        // Taken before the search: a font installed meanwhile is seen the next time.
        marker.fonts = fonts::fingerprint(&self.variables);
        warm_up::refresh_fonts(job, prefix)?;
        marker.write(prefix)
    }

    fn job<'a>(&'a self, interpreter: &'a Interpreter, cancel: &'a Cancel) -> Job<'a> {
        Job {
            interpreter,
            variables: &self.variables,
            cancel,
            directory: &self.requests,
            tools: &self.tools,
            walls: self.walls.as_deref(),
        }
    }
}

fn request(interpreter: &Interpreter, wanted: &Requirements, there: &[Package]) -> Request {
    Request {
        requirements: wanted.clone(),
        there: there.to_owned(),
        interpreter: interpreter.clone(),
    }
}

/// Refuses at once what no resolver could make possible.
fn admit(request: &Request) -> Result<(), Error> {
    let Request {
        requirements,
        there,
        interpreter,
    } = request;
    if let Some(range) = &requirements.python
        && !is_python_in_range(range, interpreter.version)?
    {
        return Err(Error::OtherPython {
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
        if let Some(package) = there.iter().find(same_name)
            && let Some(wanted) = requirement.conflict_with(&package.version)
        {
            return Err(Error::Conflict {
                name: package.name.clone(),
                there: package.version.clone(),
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

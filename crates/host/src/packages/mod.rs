//! Packages for sessions that live already.

mod installer_sandbox;
mod unreached_hosts;

use crate::Error;
use cellblock_env::{
    Cancel, Dirs, Environments, ForeignPython, InUseLock, InstallProgress, Layer, Libc, Package,
    PythonVersion, Requirements, Search, Variables,
};
use cellblock_session::{ImagePython, Refusal, Session};
use cellblock_tools::{InstallFuture, PackageInstaller, ToolError};
use installer_sandbox::SessionSandbox;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Hears how far an install has come.
pub(crate) type InstallProgressListener = Arc<dyn Fn(InstallProgress) + Send + Sync>;

/// Brings packages to sessions. A handle: clones are the same.
#[derive(Clone)]
pub struct Packages {
    environments: Environments,
    report: Option<InstallProgressListener>,
    /// Layers that sessions of this process use, so that they are not removed.
    held: Arc<Mutex<BTreeMap<String, InUseLock>>>,
}

/// Environments whose installers run in sessions of their own, behind every wall.
pub(crate) fn environments(dirs: &Dirs) -> Environments {
    let sandbox = SessionSandbox::new(dirs.clone());
    Environments::new(Variables::from_process(), dirs).sandbox(Arc::new(sandbox))
}

impl Packages {
    /// For the sessions of this user.
    pub fn from_process() -> Result<Packages, Error> {
        Ok(Packages::new(environments(&Dirs::from_process()?)))
    }

    /// With environments of your own. They must be those of the host that made the sessions.
    pub fn new(environments: Environments) -> Packages {
        Packages {
            environments,
            report: None,
            held: Arc::default(),
        }
    }

    /// The environments that packages come from and go to.
    pub fn environments(&self) -> &Environments {
        &self.environments
    }

    /// Says how far an install has come.
    pub fn reporting(
        mut self,
        report: impl Fn(InstallProgress) + Send + Sync + 'static,
    ) -> Packages {
        self.report = Some(Arc::new(report));
        self
    }

    /// Makes packages importable in the session, from its next cell on. Its variables stay, and so do the versions of all that
    /// it has: what does not go with them is a conflict.
    pub async fn install(&self, session: &Session, wanted: Requirements) -> Result<Layer, Error> {
        let cancel = Cancel::new();
        // When the caller is gone, the installer ends.
        let _guard = cancel.on_drop();
        let image = session
            .image_python()
            .await?
            .map(foreign_python)
            .transpose()?;
        let (here, session) = (self.clone(), session.clone());
        let layer = tokio::task::spawn_blocking(move || {
            let layer = here.make(&session, image.as_ref(), &wanted, &cancel)?;
            if let Some(path) = &layer.path {
                if let Some(in_use) = here.environments.mark_layer_in_use(&layer) {
                    let mut held = here.held.lock().unwrap_or_else(PoisonError::into_inner);
                    held.insert(path.display().to_string(), in_use);
                }
                session.add_packages(path);
            }
            Ok::<_, Error>(layer)
        });
        layer.await?
    }

    fn make(
        &self,
        session: &Session,
        image: Option<&ImagePackages>,
        wanted: &Requirements,
        cancel: &Cancel,
    ) -> Result<Layer, Error> {
        let added = session.added_packages();
        let added = added
            .iter()
            .flat_map(|path| self.environments.packages_of_layer(path));
        let report = self.report.clone();
        let mut on_progress = |progress| {
            if let Some(report) = &report {
                report(progress);
            }
        };
        let Some(image) = image else {
            let environment = self.environments.environment_of(session.python())?;
            let installed: Vec<Package> = environment.packages.into_iter().chain(added).collect();
            let interpreter = &environment.interpreter;
            let environments = &self.environments;
            let layer =
                environments.make_layer(interpreter, &installed, wanted, cancel, &mut on_progress);
            return Ok(layer?);
        };
        let runner = Search::from_process()?.find()?;
        let installed: Vec<Package> = image.packages.iter().cloned().chain(added).collect();
        let layer = self.environments.make_foreign_layer(
            &image.python,
            &runner,
            &installed,
            wanted,
            cancel,
            &mut on_progress,
        )?;
        Ok(layer)
    }
}

impl PackageInstaller for Packages {
    fn install<'a>(&'a self, session: &'a Session, packages: Vec<String>) -> InstallFuture<'a> {
        Box::pin(async move {
            let wanted = Requirements::parse(packages).map_err(words)?;
            let layer = Packages::install(self, session, wanted).await;
            layer
                .map(|layer| layer.to_string())
                .map_err(|error| match error {
                    Error::Environment(error) => words(error),
                    other => ToolError::new(other.to_string()),
                })
        })
    }
}

/// The Python of an image, and the packages that the image brings.
struct ImagePackages {
    python: ForeignPython,
    packages: Vec<Package>,
}

/// Reads what an image says about its Python. An image may say anything.
fn foreign_python(image: ImagePython) -> Result<ImagePackages, Error> {
    let unreadable = |missing| Error::Session(Refusal::ImagePackages { missing }.into());
    let numbers: Vec<u32> = image
        .version
        .split('.')
        .map_while(|part| part.parse().ok())
        .collect();
    let &[major, minor, micro] = numbers.as_slice() else {
        return Err(unreadable("version"));
    };
    let libc = match image.libc.as_str() {
        "glibc" => Libc::Glibc,
        "musl" => Libc::Musl,
        _ => return Err(unreadable("C library")),
    };
    if !matches!(image.machine.as_str(), "x86_64" | "aarch64") {
        return Err(unreadable("kind of processor"));
    }
    let is_plain = |text: &str| {
        let mut chars = text.chars();
        chars.all(|c| c.is_ascii_alphanumeric() || "._-+!".contains(c))
    };
    let packages = image.packages.iter().filter_map(|line| {
        let (name, version) = line.split_once("==")?;
        (is_plain(name) && is_plain(version)).then(|| Package {
            name: name.to_owned(),
            version: version.to_owned(),
        })
    });
    Ok(ImagePackages {
        packages: packages.collect(),
        python: ForeignPython {
            version: PythonVersion {
                major,
                minor,
                micro,
            },
            machine: image.machine,
            libc,
            soabi: image.soabi.chars().take(64).collect(),
        },
    })
}

fn words(error: cellblock_env::Error) -> ToolError {
    let hint = error.hint().map(|hint| format!("\nhint: {hint}"));
    ToolError::new(format!("{error}{}", hint.unwrap_or_default()))
}

impl fmt::Debug for Packages {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Packages").finish_non_exhaustive()
    }
}

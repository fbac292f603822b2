//! Packages for sessions that live already.

mod installer_sandbox;
mod unreached_hosts;

use crate::Error;
use cellblock_env::{
    Cancel, Dirs, Environments, InUseLock, Layer, Package, Progress, Requirements, Variables,
};
use cellblock_session::Session;
use cellblock_tools::{InstallFuture, PackageInstaller, ToolError};
use installer_sandbox::SessionSandbox;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Hears how far an install has come.
pub(crate) type Report = Arc<dyn Fn(Progress) + Send + Sync>;

/// Brings packages to sessions. A handle: clones are the same.
#[derive(Clone)]
pub struct Packages {
    environments: Environments,
    report: Option<Report>,
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
    pub fn reporting(mut self, report: impl Fn(Progress) + Send + Sync + 'static) -> Packages {
        self.report = Some(Arc::new(report));
        self
    }

    /// Makes packages importable in the session, from its next cell on. Its variables stay, and so do the versions of all that
    /// it has: what does not go with them is a conflict.
    pub async fn install(&self, session: &Session, wanted: Requirements) -> Result<Layer, Error> {
        let cancel = Cancel::new();
        // When the caller is gone, the installer ends.
        let _guard = cancel.on_drop();
        let (here, session) = (self.clone(), session.clone());
        let layer = tokio::task::spawn_blocking(move || {
            let layer = here.make(&session, &wanted, &cancel)?;
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
        wanted: &Requirements,
        cancel: &Cancel,
    ) -> Result<Layer, Error> {
        let environment = self.environments.environment_of(session.python())?;
        let added = session.added_packages();
        let mut installed: Vec<Package> = environment.packages.clone();
        installed.extend(
            added
                .iter()
                .flat_map(|path| self.environments.packages_of_layer(path)),
        );
        let report = self.report.clone();
        let layer = self.environments.make_layer(
            &environment.interpreter,
            &installed,
            wanted,
            cancel,
            &mut |progress| {
                if let Some(report) = &report {
                    report(progress);
                }
            },
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

fn words(error: cellblock_env::Error) -> ToolError {
    let hint = error.hint().map(|hint| format!("\nhint: {hint}"));
    ToolError::new(format!("{error}{}", hint.unwrap_or_default()))
}

impl fmt::Debug for Packages {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Packages").finish_non_exhaustive()
    }
}

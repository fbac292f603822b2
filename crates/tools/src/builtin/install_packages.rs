//! Packages for a session that lives.

use crate::{Context, Effects, Tool, ToolError};
use cellblock_session::Session;
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Compilers and slow lines included.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Something that is being installed: what came of it, in words for the model.
pub type Installing<'a> = Pin<Box<dyn Future<Output = Result<String, ToolError>> + Send + 'a>>;

/// Brings packages to a session, without touching its variables.
pub trait Installs: Send + Sync + 'static {
    /// Makes these packages importable in the session.
    fn install<'a>(&'a self, session: &'a Session, packages: Vec<String>) -> Installing<'a>;
}

/// Installs packages for the session.
#[derive(Clone)]
pub struct InstallPackagesTool {
    installer: Arc<dyn Installs>,
}

/// Installs Python packages for the live session: they can be imported at once, and all variables stay. Use it when an import fails
/// because a package is missing. Packages come by name from the package index; what is installed already keeps its version.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct InstallPackages {
    /// The packages: names, if need be with a range of versions, such as "httpx" or "polars>=1.0".
    #[schemars(length(min = 1, max = 100))]
    packages: Vec<String>,
}

impl InstallPackagesTool {
    /// Packages come from this installer.
    pub fn new(installer: impl Installs) -> InstallPackagesTool {
        InstallPackagesTool {
            installer: Arc::new(installer),
        }
    }
}

impl fmt::Debug for InstallPackagesTool {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("InstallPackagesTool")
    }
}

impl Tool for InstallPackagesTool {
    type Parameters = InstallPackages;
    type Output = String;

    /// It fetches from the network and stays on disk: a person is asked.
    fn effects(&self) -> Effects {
        Effects::Outside
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(LIMIT)
    }

    async fn call(&self, wanted: InstallPackages, context: &Context) -> Result<String, ToolError> {
        let session = context.workbench().session().await?;
        self.installer.install(&session, wanted.packages).await
    }
}

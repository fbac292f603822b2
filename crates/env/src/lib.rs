//! Python for Cellblock: finds an interpreter, and makes the environments with packages that sessions run in.
//!
//! ```no_run
//! use cellblock_env::{Cancel, Environments, EnvironmentStatus, Requirements, Search};
//!
//! let interpreter = Search::from_process()?.find()?;
//! let environments = Environments::from_process()?;
//! let wanted = Requirements::default_set();
//! let environment = match environments.status(&interpreter, &wanted) {
//!     EnvironmentStatus::Ready(environment) => *environment,
//!     _ => environments.make(&interpreter, &wanted, &Cancel::new(), &mut |progress| {
//!         eprintln!("{:3.0} % {}", progress.fraction() * 100.0, progress.message);
//!     })?,
//! };
//! println!("{} has {} packages", environment.python.display(), environment.packages.len());
//! # Ok::<(), cellblock_env::Error>(())
//! ```
//!
//! All functions are blocking and run on the calling thread. [`Environments::status`], and [`Search::find`]
//! after the first time, take less than a millisecond. Call [`Environments::make`] in tokio's
//! `spawn_blocking`, and stop it with a [`Cancel`].
//!
//! uv installs packages, with the machine's own settings for indexes; pip only downloads uv where there is
//! none. Both run in a sandbox where [`Environments::sandbox`] gives one.

#![forbid(unsafe_code)]

mod dirs;
mod error;
mod find;
mod install;
mod program;
mod requirements;
mod store;
mod variables;

pub use dirs::Dirs;
pub use error::{Error, FailureCause, InstallFailure};
pub use find::{
    CJK_FONT_HINT, Font, ForeignPython, Interpreter, Libc, MIN_PYTHON_VERSION, OptionalModules,
    PythonVersion, RejectReason, RejectedPython, Search, cjk_font,
};
pub use install::{
    CommandFailure, InstallProgress, InstallStep, InstallerSandbox, OpenSandbox, ProgramEnd,
    ProxySettings, SandboxCommand, SandboxError, SandboxOptions, SandboxStrength, UnreachedHost,
};
pub use program::{Cancel, CancelOnDrop};
pub use requirements::{DEFAULT_PACKAGES, Requirements};
pub use store::{
    DEFAULT_BUDGET_BYTES, Environment, EnvironmentArchives, EnvironmentStatus, Environments,
    InUseLock, Layer, MadeEnvironment, Package, StoredEnvironment, StoredKind, default_environment,
    default_environment_status,
};
pub use variables::Variables;

//! Python for Cellblock: finding an interpreter, and making the environment with packages that
//! sessions run in.
//!
//! ```no_run
//! use cellblock_env::{Cancel, Environments, Requirements, Search, Status};
//!
//! let interpreter = Search::from_process()?.find()?;
//! let environments = Environments::from_process()?;
//! let wanted = Requirements::default_set();
//! let environment = match environments.status(&interpreter, &wanted) {
//!     Status::Ready(environment) => *environment,
//!     _ => environments.make(&interpreter, &wanted, &Cancel::new(), &mut |progress| {
//!         eprintln!("{:3.0} % {}", progress.fraction() * 100.0, progress.message);
//!     })?,
//! };
//! println!("{} has {} packages", environment.python.display(), environment.packages.len());
//! # Ok::<(), cellblock_env::Error>(())
//! ```
//!
//! Everything here is plain blocking code on the calling thread. [`Environments::status`] and a
//! remembered [`Search::find`] take well under a millisecond and may be called anywhere; call
//! [`Environments::make`] inside tokio's `spawn_blocking`, and stop it with a [`Cancel`].
//!
//! Package indexes are reached only through uv and pip, as the machine's own settings say, and both work behind walls where
//! [`Environments::behind`] names some.

#![forbid(unsafe_code)]

mod access;
mod answer;
mod build;
mod bytecode;
mod cancel;
mod child;
mod default;
mod dirs;
mod downloads;
mod environment;
mod environments;
mod error;
mod fonts;
mod hash;
mod in_use;
mod install;
mod interpreter;
mod layer;
mod lock;
mod netrc;
mod partial;
mod pip;
mod pip_settings;
mod places;
mod probe;
mod progress;
mod remembered;
mod requirement;
mod requirements;
mod search;
mod sources;
mod stored;
mod take_over;
mod uv;
mod uv_configuration;
mod variables;
mod walls;
mod warm_up;
mod workroom;
mod written;

pub use cancel::{Cancel, CancelOnDrop};
pub use default::{default_environment, default_environment_status};
pub use dirs::Dirs;
pub use environment::{Environment, Kind, Package, Status};
pub use environments::{DEFAULT_BUDGET, Environments, Installer};
pub use error::{Error, InstallFailure};
pub use fonts::{CJK_FONT_HINT, Font, cjk_font};
pub use in_use::InUse;
pub use interpreter::{Interpreter, Modules, Version};
pub use layer::Layer;
pub use progress::{Progress, Step};
pub use requirements::{DEFAULT_PACKAGES, Requirements};
pub use search::{OLDEST, Reason, Rejected, Search};
pub use stored::Stored;
pub use variables::Variables;
pub use walls::{Failed, NoRoom, OpenRoom, Order, Proxies, Room, Strength, Unreached, Walls};

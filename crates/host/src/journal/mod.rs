//! Journals of sessions: reading them, replaying them, and turning them into scripts and notebooks.
//!
//! ```
//! use cellblock_host::journal::Restore;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let host = cellblock_host::Host::builder().build()?;
//! # let place = tempfile::tempdir()?;
//! # let directory = place.path();
//! let session = host.session().journal(directory).start().await?;
//! session.run("x = 20").await?;
//! session.close().await;
//!
//! let journals = cellblock_host::journal::Journals::new(directory);
//! let journal = journals.find("last")?.read()?;
//! let restored = Restore::default().run(&host, &journal).await?;
//! assert!(restored.report.differences.is_empty());
//! let result = restored.session.run("x + 1").await?;
//! assert_eq!(result.value.map(|value| value.repr).as_deref(), Some("21"));
//! # Ok(())
//! # }
//! ```

mod literal;
mod markdown;
mod notebook;
mod restore;
mod run_record;
mod script;

pub use cellblock_session::journal::*;
pub use literal::of_value as python_literal;
pub use markdown::{fenced_block, markdown};
pub use notebook::{notebook, notebook_of_run};
pub use restore::{Checkpoints, LeftOutCell, Restore, RestoreReport, Restored};
pub use run_record::RunRecord;
pub use script::{script, script_of_run};

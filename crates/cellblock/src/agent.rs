//! The agent: from a question to a checked answer.
//!
//! ```
//! use cellblock::agent::{Agent, executor};
//! use cellblock::model::{Reply, Scripted};
//! use cellblock::{Host, SessionOptions};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::builder().build()?;
//! // In place of a real model: what it would say.
//! let model = Scripted::new([
//!     Reply::text("```python\nprint('NcS9euQa'[::-1])\n```"),
//!     Reply::text("aQue9ScN"),
//! ]);
//! let agent = Agent::builder()
//!     .model(model)
//!     .executor(executor(host, SessionOptions::default(), Vec::new()))
//!     .format(cellblock::agent::Format::Markdown)
//!     .build()?;
//! let outcome = agent.run("What is NcS9euQa backwards?").await?;
//! assert_eq!(outcome.answer_text(), "aQue9ScN");
//! assert_eq!(outcome.cells().count(), 1);
//! # Ok(())
//! # }
//! ```

use crate::{Host, SessionOptions};
use cellblock_tools::ToolError;
use std::sync::Arc;

pub use cellblock_agent::*;

/// A file that every session of an agent begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenFile {
    /// Where it stands in the workspace.
    pub path: String,
    /// What is in it.
    pub contents: Arc<Vec<u8>>,
}

/// Runs the code of an agent in sessions of this host, each with these options and files.
pub fn executor(host: Host, options: SessionOptions, files: Vec<GivenFile>) -> LocalExecutor {
    let packages = host.environment().packages.iter();
    let packages: Vec<String> = packages.map(|package| package.name.clone()).collect();
    let open = move |wanted: Wanted| -> cellblock_tools::Opening {
        let (host, files) = (host.clone(), files.clone());
        let mut options = options.clone();
        options.seed.extend(wanted.seed);
        if wanted.fresh_workspace {
            options.workspace = None;
        }
        Box::pin(async move {
            let session = host.open(options).await?;
            for file in files {
                let contents = file.contents.as_ref().clone();
                session.put_file(&file.path, contents).await?;
            }
            Ok::<_, ToolError>(session)
        })
    };
    LocalExecutor::new(open).dependencies(packages)
}

/// The code of the page about the agent, as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/agent.md")]
struct Page;

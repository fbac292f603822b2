//! The agent: from a question to a checked answer.
//!
//! ```
//! use cellblock::agent::{Agent, executor};
//! use cellblock::model::{Reply, ScriptedModel};
//! use cellblock::{Host, SessionOptions};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::builder().build()?;
//! // In place of a real model: what it would say.
//! let model = ScriptedModel::new([
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

use crate::{Host, Isolation, Journaling, Rung, SessionOptions, Wall};
use cellblock_tools::ToolError;
use std::collections::BTreeSet;
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
    executor_telling(host, options, files, |_| {})
}

/// The same, and tells of every session that a run works in. Those of a check are not told of, and keep no journal.
pub fn executor_telling(
    host: Host,
    options: SessionOptions,
    files: Vec<GivenFile>,
    opened: impl Fn(&cellblock_tools::Session) + Send + Sync + 'static,
) -> LocalExecutor {
    let opened = Arc::new(opened);
    // What an image holds is not known before a container runs.
    let packages = match options.container {
        Some(_) => &[][..],
        None => &host.environment().packages[..],
    };
    let names = packages.iter().map(|package| package.name.clone());
    let packages: Vec<String> = names.collect();
    let surroundings = surroundings(&options, &files);
    let workspace = options.workspace_at.to_string();
    let open = move |request: SessionRequest| -> cellblock_tools::SessionFuture {
        let (host, files, opened) = (host.clone(), files.clone(), Arc::clone(&opened));
        let mut options = options.clone();
        options.seed.extend(request.seed);
        if request.workspace == WorkspaceChoice::Fresh {
            options.workspace = None;
            options.journal = Journaling::Off;
        }
        Box::pin(async move {
            let session = host.open(options).await?;
            for file in files {
                let contents = file.contents.as_ref().clone();
                session.put_file(&file.path, contents).await?;
            }
            if request.workspace == WorkspaceChoice::Usual {
                opened(&session);
            }
            Ok::<_, ToolError>(session)
        })
    };
    LocalExecutor::new(open)
        .dependencies(packages)
        .workspace(workspace)
        .surroundings(surroundings)
}

/// The most entries of a directory that are looked at.
const MAX_READ_ENTRIES: usize = 1_000;

/// What sessions with these options begin with. Of a directory of the user, the names at its top are listed, without hidden ones.
fn surroundings(options: &SessionOptions, files: &[GivenFile]) -> CodeEnvironment {
    let entries = options.workspace.as_deref().map(std::fs::read_dir);
    let entries = entries.and_then(Result::ok).into_iter().flatten().flatten();
    let own = entries.take(MAX_READ_ENTRIES).filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let end = if is_directory { "/" } else { "" };
        (!name.starts_with('.')).then(|| format!("{}{end}", crate::visible_name(&name)))
    });
    let given = files.iter().map(|file| file.path.clone());
    let files: BTreeSet<String> = own.chain(given).collect();
    CodeEnvironment {
        files: files.into_iter().collect(),
        variables: options.seed.keys().cloned().collect(),
        imports: options.imports.clone(),
        network: options.network.iter().map(ToString::to_string).collect(),
        unlisted_hosts: options.unlisted_hosts,
        network_wall: network_wall(&options.isolation),
    }
}

fn network_wall(isolation: &Isolation) -> NetworkWall {
    let is_left_out = isolation.without.contains(&Wall::Network);
    if is_left_out || isolation.rung == Some(Rung::None) {
        NetworkWall::LeftOut
    } else {
        NetworkWall::Stands
    }
}

/// The code of the page about the agent, as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/agent.md")]
struct Page;

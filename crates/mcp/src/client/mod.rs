//! Other MCP servers: their tools as ours.

mod arrival;
mod link;
mod output;
mod program;
mod remote_server;
mod remote_tool;
mod resource_tools;
mod stdout_monitor;
mod words;

use cellblock_tools::{DynamicTool, Registry};
use futures_util::future::join_all;
use link::Link;
use rmcp::model::Tool;
use std::fmt;
use std::sync::Arc;

pub use remote_server::{RemoteServer, Trust, Where};

/// Servers that were started, and what they offer.
pub struct Connected {
    /// Their tools, each under the name of its server: `search` of the server `web` is `web_search`.
    pub tools: Vec<Arc<dyn DynamicTool>>,
    /// What cannot be used, and why.
    pub problems: Vec<Problem>,
    links: Vec<Arc<Link>>,
}

/// A server, or a tool of one, that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the MCP server `{server}`: {message}")]
pub struct Problem {
    /// Its name in the configuration.
    pub server: String,
    /// What is wrong, for people.
    pub message: String,
}

/// Starts servers, all at the same time, and asks for their tools. One that fails is named among the problems; the others work.
pub async fn connect(servers: impl IntoIterator<Item = RemoteServer>) -> Connected {
    let mut connected = Connected {
        tools: Vec::new(),
        problems: Vec::new(),
        links: Vec::new(),
    };
    let arrivals = join_all(servers.into_iter().map(Link::start)).await;
    for arrival in arrivals {
        match arrival {
            Ok((link, offer)) => connected.take(link, offer),
            Err(problem) => connected.problems.push(problem),
        }
    }
    connected
}

/// What a server offers.
struct Offer {
    tools: Vec<Tool>,
    has_resources: bool,
    /// That there was more than we take.
    complaint: Option<String>,
}

impl Connected {
    /// Ends the servers that we started, and waits until they are gone.
    pub async fn close(&self) {
        join_all(self.links.iter().map(|link| link.close())).await;
    }

    fn take(&mut self, link: Arc<Link>, offer: Offer) {
        let server = link.name().to_owned();
        let mut tools = remote_tool::tools(&link, offer.tools);
        if offer.has_resources {
            tools.extend(resource_tools::tools(&link));
        }
        let mut complaints: Vec<String> = offer.complaint.into_iter().collect();
        let mut kept: Vec<Arc<dyn DynamicTool>> = Vec::new();
        for tool in tools {
            // One tool that cannot be used must not take the others with it.
            let beside = kept.iter().cloned().chain([Arc::clone(&tool)]);
            match Registry::builder().extend(beside).build() {
                Ok(_) => kept.push(tool),
                Err(error) => complaints.push(format!("a tool is left out: {error}")),
            }
        }
        self.tools.extend(kept);
        self.problems
            .extend(complaints.into_iter().map(|message| Problem {
                server: server.clone(),
                message,
            }));
        self.links.push(link);
    }
}

impl fmt::Debug for Connected {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.links.iter().map(|link| link.name()).collect();
        out.debug_struct("Connected")
            .field("servers", &names)
            .field("problems", &self.problems)
            .finish_non_exhaustive()
    }
}

//! The flags of a cluster in a program that was built without it.

use crate::failure::built_without;
use clap::Args;
use std::net::SocketAddr;

/// How a server is one of several: not in this program.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClusterArgs {
    /// Not in this program: it was built without clusters
    #[arg(long, value_name = "URLS", hide = true)]
    cluster: Option<String>,
}

impl ClusterArgs {
    /// Whether a cluster is named.
    pub(crate) fn is_chosen(&self) -> bool {
        self.cluster.is_some()
    }

    /// Says how to get a program with clusters, if one is named.
    pub(crate) async fn options(
        &self,
        _address: SocketAddr,
    ) -> anyhow::Result<Option<cellblock_server::ClusterOptions>> {
        match self.cluster {
            None => Ok(None),
            Some(_) => Err(built_without("clusters")),
        }
    }
}

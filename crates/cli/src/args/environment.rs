//! The flag that names an environment, and the host that runs in it.

use super::PythonArgs;
use crate::terminal::{Console, EnvironmentBar};
use cellblock::env::Requirements;
use cellblock::{Host, HostBuilder, Preload};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Which packages.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Python")]
pub(crate) struct EnvironmentArgs {
    /// Run in this environment: a name of `cellblock env`, or a requirements.txt, pyproject.toml or script [default: that of `cellblock setup`]
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "stdlib")]
    pub(crate) env: Option<String>,
}

impl EnvironmentArgs {
    /// A host whose sessions run in the environment; it is made first if need be.
    pub(crate) async fn host(
        &self,
        python: &PythonArgs,
        preload: Preload,
        console: &Console,
    ) -> anyhow::Result<Host> {
        self.build(python.host_builder(preload), None, console)
            .await
    }

    /// The same, with what else is to be said about the host, and with what the header of a script asks for (PEP 723).
    pub(crate) async fn build(
        &self,
        builder: HostBuilder,
        script: Option<&str>,
        console: &Console,
    ) -> anyhow::Result<Host> {
        let bar = Arc::new(EnvironmentBar::new(console));
        let reported = Arc::clone(&bar);
        let builder = builder.progress(move |progress| reported.report(&progress));
        let host = builder.clone().build()?;
        let header = script.map(Requirements::from_script).transpose()?.flatten();
        let named = self.env.as_deref().map(|env| host.requirements_of(env));
        let wanted = match (header, named.transpose()?) {
            (None, None) => return Ok(host),
            (Some(one), None) | (None, Some(one)) => one,
            (Some(header), Some(named)) => header.merge(named),
        };
        let made = host.environment_with(wanted).await;
        bar.clear();
        Ok(builder.environment(made?).build()?)
    }
}

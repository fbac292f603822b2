//! The flags that name a Python and an environment of packages, and the host that they describe.

use crate::config::{Config, SessionConfig, SettingResolver, SettingSpec};
use crate::kept_workspaces::remove_expired_in_background;
use crate::terminal::{Console, EnvironmentBar};
use cellblock::env::Requirements;
use cellblock::{Host, HostBuilder, Preload, PythonChoice};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// The flags that choose the Python.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Python")]
pub(crate) struct PythonArgs {
    /// Use this interpreter [default: the first good one on PATH]
    #[arg(long, value_name = "PATH")]
    pub(crate) python: Option<PathBuf>,
    /// Use the standard library alone, although packages are installed
    #[arg(long)]
    pub(crate) stdlib: bool,
}

impl PythonArgs {
    /// Resolves settings without a flag from environment variables and the configuration.
    pub(crate) fn resolve(&self, config: &Config) -> anyhow::Result<PythonArgs> {
        self.resolve_in(&mut SettingResolver::new(config), &config.session)
    }

    /// Resolves the settings with this resolver, which notes the source of each value.
    pub(crate) fn resolve_in(
        &self,
        resolver: &mut SettingResolver<'_>,
        file: &SessionConfig,
    ) -> anyhow::Result<PythonArgs> {
        let mut args = self.clone();
        let python = SettingSpec {
            variables: &["CELLBLOCK_PYTHON"],
            ..SettingSpec::new("session.python", "--python", "the first good one on PATH")
        };
        resolver.resolve(
            python,
            &mut args.python,
            file.python.as_ref(),
            |text| Ok(PathBuf::from(text)),
            |path| path.display().to_string(),
        )?;
        let stdlib = SettingSpec::new("session.stdlib", "--stdlib", "false");
        resolver.switch(stdlib, &mut args.stdlib, true, file.stdlib.as_ref())?;
        Ok(args)
    }

    /// Finds the Python. Nothing is started yet.
    pub(crate) fn host(&self, preload: Preload) -> Result<Host, cellblock::Error> {
        self.host_builder(preload).build()
    }

    /// A builder for the host, so that more can be set.
    pub(crate) fn host_builder(&self, preload: Preload) -> HostBuilder {
        let choice = if self.stdlib {
            PythonChoice::StandardLibrary
        } else {
            PythonChoice::BestReady
        };
        let builder = Host::builder().python(choice).preload(preload);
        match &self.python {
            Some(path) => builder.interpreter(path),
            None => builder,
        }
    }

    /// Whether a session has fewer packages than the user may expect, because `setup` was not run.
    pub(crate) fn lacks_packages(&self, host: &Host) -> bool {
        !self.stdlib && !host.has_packages()
    }
}

/// The hint for a user without packages.
pub(crate) const SETUP_HINT: &str = "only the standard library is available so far; `cellblock setup` installs numpy, pandas, matplotlib and more";

/// The flag that chooses the packages.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Python")]
pub(crate) struct EnvironmentArgs {
    /// Run in this environment: a name of `cellblock env`, or a requirements.txt, pyproject.toml or script [default: that of `cellblock setup`]
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "stdlib")]
    pub(crate) env: Option<String>,
}

impl EnvironmentArgs {
    /// A host whose sessions run in the environment. A missing environment is made first.
    pub(crate) async fn host(
        &self,
        python: &PythonArgs,
        preload: Preload,
        console: &Console,
    ) -> anyhow::Result<Host> {
        self.build(python.host_builder(preload), None, console)
            .await
    }

    /// A host from this builder, in the environment that the flag and the header of a script (PEP 723) ask for. Missing environments are made.
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
        remove_expired_in_background(host.state_directory());
        let header = script.map(Requirements::from_script).transpose()?.flatten();
        let named = self.env.as_deref().map(|env| host.requirements_of(env));
        let wanted = match (header, named.transpose()?) {
            (None, None) => return Ok(host),
            (Some(one), None) | (None, Some(one)) => one,
            (Some(header), Some(named)) => header.merge(named),
        };
        let made = host.environment_with(wanted.clone()).await;
        bar.clear();
        let builder = builder.environment(made?).container_packages(wanted);
        Ok(builder.build()?)
    }
}

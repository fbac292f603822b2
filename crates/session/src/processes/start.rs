//! The session's part in starting processes: init is asked for the spawner, and what processes have by default is told.

use super::{SpawnEnvironment, SpawnerEnds};
use crate::actor::Actor;
use crate::network::NetworkListeners;
use crate::spawn::zygote::{VARIABLES, home_variables};
use crate::{Error, ProcessRefusal};
use cellblock_sandbox::spawner_request;
use std::os::fd::AsFd as _;
use std::path::Path;

/// The longest request that init takes.
const MAX_REQUEST_BYTES: usize = 16 << 10;

impl Actor {
    /// Asks init for the spawner, which answers on its own socket.
    pub(crate) async fn start_spawner(
        &mut self,
        ends: SpawnerEnds,
    ) -> Result<SpawnEnvironment, Error> {
        let Some(request) = &self.live.placement.spawn_request else {
            return Err(ProcessRefusal::InContainer.into());
        };
        let request = spawner_request(request);
        if request.len() > MAX_REQUEST_BYTES {
            let (bytes, max) = (request.len(), MAX_REQUEST_BYTES);
            return Err(ProcessRefusal::RequestTooLong { bytes, max }.into());
        }
        let [first, second] = &ends.sockets;
        let sockets = [first.as_fd(), second.as_fd()];
        let sent = self.live.init.send_descriptors(&request, &sockets);
        sent.await.map_err(Error::system("asking for a spawner"))?;
        Ok(self.spawn_environment())
    }

    fn spawn_environment(&self) -> SpawnEnvironment {
        let runtime = self.runtime.as_deref();
        let mut environment = SpawnEnvironment {
            home: self.live.base.layout.workspace.display().to_string(),
            ..SpawnEnvironment::default()
        };
        let fixed = VARIABLES
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let home = runtime.map(|runtime| home_variables(&runtime.place));
        let home = home.unwrap_or_default().into_iter();
        let private = runtime.map(|runtime| runtime.environment(self.live.directory.path()));
        environment.variables = fixed
            .chain(home.map(|(name, value)| (name.to_owned(), value)))
            .chain(private.unwrap_or_default())
            .chain(NetworkListeners::of(&self.options).environment())
            .collect();
        // `python` is the session's own.
        if let Some(directory) = self.live.base.python.parent().and_then(Path::to_str)
            && let Some(path) = environment.variables.get_mut("PATH")
            && !path.split(':').any(|known| known == directory)
        {
            *path = format!("{directory}:{path}");
        }
        environment
    }
}

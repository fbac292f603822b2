//! What a backend is to the tests: how its sessions are made.

use super::sessions::{host, open};
use cellblock::{ContainerOptions, Session, SessionBuilder};
use std::env;

/// A backend.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    container: Option<ContainerOptions>,
}

/// The walls of this machine.
pub(crate) fn local() -> Ground {
    Ground { container: None }
}

/// Containers, where the test command brought an engine and an image. Without, in continuous integration, a test fails.
pub(crate) fn docker() -> Option<Ground> {
    let Ok(image) = env::var("CELLBLOCK_TEST_IMAGE") else {
        let why =
            "left out: no container engine; run the tests with `tests/with-docker cargo test …`";
        assert!(env::var_os("CI").is_none(), "{why}");
        println!("{why}");
        return None;
    };
    super::log::listen();
    let container = ContainerOptions::image(image);
    Some(Ground {
        container: Some(container),
    })
}

impl Ground {
    /// A session to be made.
    pub(crate) fn builder(&self) -> SessionBuilder {
        let builder = SessionBuilder::new().host(host());
        match &self.container {
            Some(container) => builder.container(container.clone()),
            None => builder,
        }
    }

    /// A session with the defaults.
    pub(crate) fn session(&self) -> Session {
        open(self.builder())
    }

    pub(crate) fn container(&self) -> Option<ContainerOptions> {
        self.container.clone()
    }

    /// Whether a cell that ends its process takes the variables with it.
    pub(crate) fn has_checkpoints(&self) -> bool {
        self.container.is_none()
    }
}

//! What can go wrong with an engine, for the person who has to put it right.

use std::io;

/// Why the engine did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody answers.
    #[error(
        "no container engine answers at {address}: {source}; start Docker, or say in DOCKER_HOST where its socket is"
    )]
    NoEngine {
        /// Where it was looked for.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// This user may not speak with it.
    #[error(
        "this user may not use the container engine at {address}; whoever is in the group of that socket may (`usermod -aG docker NAME`, which is as much as to be root)"
    )]
    Forbidden {
        /// Where it is.
        address: String,
    },
    /// The engine is somewhere else.
    #[error(
        "DOCKER_HOST is {address}, and only an engine on this machine can be used: the workspace and the channel to the code are shared with the container as files; give a path such as unix:///var/run/docker.sock"
    )]
    Elsewhere {
        /// What DOCKER_HOST says.
        address: String,
    },
    /// The image is not there.
    #[error("the container engine has no image {image}; `docker pull {image}` brings it")]
    NoImage {
        /// Which.
        image: String,
    },
    /// The engine says no.
    #[error("the container engine refused {what}: {message}")]
    Refused {
        /// What it was asked for.
        what: &'static str,
        /// Its own words.
        message: String,
    },
    /// The engine went away, or speaks another language.
    #[error("the container engine did not answer {what}: {reason}")]
    Silent {
        /// What it was asked for.
        what: &'static str,
        /// What happened instead.
        reason: String,
    },
}

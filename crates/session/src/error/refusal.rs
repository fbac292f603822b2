//! Why a session or a runtime refuses something: the causes of [`Error::Refused`](crate::Error::Refused).

use super::fork::ForkRefusal;
use super::process::ProcessRefusal;
use crate::network::CredentialError;
use cellblock_protocol::guest::HeadError;
use cellblock_protocol::{Isolation, NetworkRule, Rung, Status, WorkspacePlace};

/// A cause for which a session or a runtime refuses something. Its text is a sentence for a person; a program matches the variant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The session cannot be forked.
    #[error(transparent)]
    Fork(#[from] ForkRefusal),
    /// A process beside the head cannot be started or used.
    #[error(transparent)]
    Process(#[from] ProcessRefusal),
    /// A place for the workspace was chosen, and the session has no files of its own in which it could be there.
    #[error(
        "the workspace can be at {place} only in a session with files of its own, and this one has the isolation `{isolation}` on the rung `{rung}`: the rung must be `full`, with the wall files"
    )]
    WorkspacePlace {
        /// The place that was chosen.
        place: WorkspacePlace,
        /// The walls that were asked for.
        isolation: Isolation,
        /// The rung that this machine reaches.
        rung: Rung,
    },
    /// A limit of processors was set, and the host has no cgroups for it.
    #[error(
        "a limit of processors (`limits.cpus`, --cpus) needs cgroups with the controller `cpu`, and this host cannot use them: `cellblock doctor` tells what it can use"
    )]
    CpuLimit,
    /// Network rules were set, and the session has no network of its own that could be guarded.
    #[error(
        "rules for the network need a session with a network and files of its own, and this one has the isolation `{isolation}`: the rung must be `full`, with the walls files and network"
    )]
    NetworkRules {
        /// The walls of the session, in the words of results.
        isolation: String,
    },
    /// A rule for raw TCP names an address instead of a host.
    #[error(
        "the rule `{rule}` cannot be kept: inside a session, hosts for tcp:// are found by their names, and an address has none; use a name, such as `tcp://localhost:5432`"
    )]
    AddressRule {
        /// The rule.
        rule: NetworkRule,
    },
    /// The secret of a credential rule cannot be read or used.
    #[error("{0}")]
    Credential(CredentialError),
    /// The guest refused an operation, or answered with what no guest sends.
    #[error("{0}")]
    Guest(HeadError),
    /// The `setup` code of the session did not succeed.
    #[error("the setup code ended with {status}:\n{output}")]
    Setup {
        /// How the code ended.
        status: Status,
        /// The traceback, or the standard error where there is none.
        output: String,
    },
    /// The processes of the session are not to be found on this machine: those of a container may be on another one.
    #[error("the processes of this session cannot be found")]
    ProcessesNotFound,
    /// Too many directories are watched.
    #[error("{max} directories are watched already; end a watch first")]
    TooManyWatches {
        /// The most watches of a session.
        max: usize,
    },
    /// The head died while it was asked. The session lives and went back to its newest checkpoint.
    #[error("the session could not answer and went back to its last checkpoint: {reason}")]
    WentBack {
        /// How the head ended.
        reason: String,
    },
    /// A question came while a cell ran, and its time was over before the cell let the head answer.
    #[error("the running cell left no time to answer")]
    NoTimeToAnswer,
    /// A question came while a cell ran, and the head ended with the cell.
    #[error("the cell took its session down before it could answer")]
    HeadEndedByCell,
    /// The Python of a container's image did not start.
    #[error("Python did not start in the image {image}: {reason}")]
    ImageStart {
        /// The image.
        image: String,
        /// The reason, as the container tells it.
        reason: String,
    },
    /// The Python of a container's image does not tell what it is.
    #[error("the Python of the image {image} cannot be asked what it is: {reason}")]
    ImagePython {
        /// The image.
        image: String,
        /// What is wrong with its answer.
        reason: String,
    },
    /// Packages cannot be installed for the Python of an image, because it does not say enough about itself.
    #[error("packages cannot be installed for the image: its Python names no usable {missing}")]
    ImagePackages {
        /// What the Python does not name: `version`, for example.
        missing: &'static str,
    },
    /// Open files are to be copied by a caller that cannot pass descriptors.
    #[error("open files cannot be copied from here; read or write the file in parts")]
    NoDescriptors,
}

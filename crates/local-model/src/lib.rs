//! Models on this machine.
//!
//! [`LocalModels`] keeps weights (GGUF files) and brings new ones: from a path, an address with a hash, the
//! model hub, or Python packages. [`LocalModels::serve`] starts llama.cpp's server for one of them; the server ends by
//! itself when no process uses it. [`Discovery`] finds a model where the user chose none.
#![forbid(unsafe_code)]

mod catalogue;
mod discovery;
mod download;
mod error;
mod package_weights;
mod server;
mod source;
mod store;

pub use catalogue::{CatalogueModel, DEFAULT_MODEL, catalogue};
pub use discovery::{Discovery, FoundModel, LOCAL_SERVERS_VARIABLE};
pub use download::DownloadProgress;
pub use error::Error;
pub use server::{ServerStatus, ServerUse};
pub use source::WeightsSource;
pub use store::{LOCAL_PREFIX, LocalModels, StoredModel};

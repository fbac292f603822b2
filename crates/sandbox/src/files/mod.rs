//! The host's access to directories that hostile code can change: no name in them is trusted.

mod confined;
mod draft;
mod entry;
mod own_copy;
mod private;
mod removal;
mod space;
mod walk;

pub use confined::{Access, Confined, Links, unguessable_name};
pub use entry::{Entry, Identity, SET_ID_BITS};
pub use private::{Reach, claim_directory, private_directory, private_file};
pub use removal::remove_directory;
pub use space::FileSystem;
pub use walk::{Budget, Closed, Step};

//! The host's access to directories that hostile code can change: no name in them is trusted.

mod absolute_links;
mod confined;
mod entry;
mod path_owners;
mod private;
mod removal;
mod session_view;
mod shared_inode;
mod temporary_file;
mod walk;

pub use confined::{Access, Confined, FileSystem, Links, unguessable_name};
pub use entry::{EntryHandle, Identity, SET_ID_BITS};
pub use private::{Reach, claim_directory, private_directory, private_file};
pub use removal::remove_directory;
pub use session_view::{Listed, in_view_of};
pub use walk::{Budget, Closed, WalkStep};

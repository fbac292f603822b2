//! Copies of the head: standbys, which wait in the same session, and the heads of forks, which live in namespaces of their own.

mod arrival;
pub mod build_request;
pub mod copy_into_fork;
pub mod cpu_affinity;
pub mod enter_namespaces;
pub mod event_descriptors;
pub mod family;
pub mod file_offsets;
pub mod fork;
pub mod fork_init;
pub mod inherited;
pub mod own_copies;
pub mod process_ids;
pub mod shared_memory;
pub mod side_fork;
pub mod socket_state;
pub mod standby;
mod temporary_files;
pub mod threads;
pub mod unconnected_sockets;
pub mod user_namespace;
pub mod ways_back;

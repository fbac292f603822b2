//! Copies of the head: standbys, which wait in the same session, and the heads of forks, which live in namespaces of their own.

pub mod crossing;
pub mod entering;
pub mod fork;
pub mod kin;
pub mod offspring;
pub mod ownership;
pub mod processor;
pub mod side_fork;
pub mod standby;
pub mod threads;
pub mod waking;

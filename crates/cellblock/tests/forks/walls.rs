//! The walls of a fork are those of any session, and there is one between it and its parent.

use crate::support::{Python, builder, is_root, open, session, wait};
use cellblock::{Isolation, Rung, Wall};

#[test]
fn placeholder() {}

//! Capabilities, `no_new_privs` and whether others may look into a process.

use crate::sys::{Result, nr, prctl, syscall};

use options::{DROP_BOUNDING, SET_DUMPABLE, SET_SECUREBITS};

/// Options of `prctl` that init also uses in the place of another process (`forks/enter_namespaces.rs`).
pub mod options {
    #![allow(missing_docs)]
    pub const SET_DUMPABLE: usize = 4;
    pub const DROP_BOUNDING: usize = 24;
    pub const SET_SECUREBITS: usize = 28;
}

const SET_PARENT_DEATH_SIGNAL: usize = 1;
const SET_CHILD_SUBREAPER: usize = 36;
const SET_NO_NEW_PRIVS: usize = 38;
/// Of the layout of sets of capabilities.
const VERSION_3: u32 = 0x2008_0522;
/// `SECBIT_NOROOT` and its lock: even an id of 0 gets no capability back.
pub const NO_ROOT_LOCKED: usize = 0b11;

/// The arguments of a `capset` that gives up everything: the header, then empty sets.
pub static NO_CAPABILITIES: [u32; 8] = [VERSION_3, 0, 0, 0, 0, 0, 0, 0];

/// Gives every capability up for good, for this process and whatever it executes.
pub fn drop_all() -> Result<()> {
    for capability in 0..64 {
        if prctl(DROP_BOUNDING, capability).is_err() {
            break;
        }
    }
    let _ = prctl(SET_SECUREBITS, NO_ROOT_LOCKED);
    no_new_privileges()?;
    set_capabilities(&[0; 6])
}

/// Does something with the rights of the session's own code, which has no capabilities.
pub fn without_capabilities<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let held = capabilities()?;
    let [
        _,
        permitted,
        inheritable,
        _,
        permitted_above,
        inheritable_above,
    ] = held;
    let none_in_effect = [
        0,
        permitted,
        inheritable,
        0,
        permitted_above,
        inheritable_above,
    ];
    set_capabilities(&none_in_effect)?;
    let outcome = work();
    set_capabilities(&held)?;
    outcome
}

fn capabilities() -> Result<[u32; 6]> {
    let header = [VERSION_3, 0];
    let mut sets = [0u32; 6];
    // SAFETY: the header and memory for two sets in the layout of version 3.
    unsafe {
        syscall(
            nr::CAPGET,
            [header.as_ptr() as usize, sets.as_mut_ptr() as usize],
        )
    }?;
    Ok(sets)
}

fn set_capabilities(sets: &[u32; 6]) -> Result<()> {
    let header = [VERSION_3, 0];
    // SAFETY: the header and two sets in the layout of version 3.
    unsafe {
        syscall(
            nr::CAPSET,
            [header.as_ptr() as usize, sets.as_ptr() as usize],
        )
    }
    .map(drop)
}

/// From now on no `exec` gains anything.
pub fn no_new_privileges() -> Result<()> {
    prctl(SET_NO_NEW_PRIVS, 1).map(drop)
}

/// Whether processes of the same user may read this one's memory and its `/proc` entries.
pub fn set_dumpable(yes: bool) {
    let _ = prctl(SET_DUMPABLE, usize::from(yes));
}

/// Whether they may now.
pub fn is_dumpable() -> bool {
    const GET_DUMPABLE: usize = 3;
    prctl(GET_DUMPABLE, 0) == Ok(1)
}

/// Leaves the session keyring of the parent process: its keys are secrets like those in the environment. The new one is
/// empty. A kernel without keys has none to leave.
pub fn leave_keys_behind() {
    const JOIN_SESSION_KEYRING: usize = 1;
    // SAFETY: without a name the kernel reads no memory.
    let _ = unsafe { syscall(nr::KEYCTL, [JOIN_SESSION_KEYRING, 0]) };
}

/// Orphans below this process become its children.
pub fn adopt_orphans() -> Result<()> {
    prctl(SET_CHILD_SUBREAPER, 1).map(drop)
}

/// This process gets `signal` when its parent ends.
pub fn follow_parent(signal: i32) {
    let _ = prctl(SET_PARENT_DEATH_SIGNAL, signal as usize);
}

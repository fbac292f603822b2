//! How values are read from JSON and written to it: fields with their errors, quantities with units, and what JSON takes in memory.

pub mod duration;
pub(crate) mod fields;
pub(crate) mod invalid;
pub(crate) mod memory;
pub(crate) mod quantity;
pub(crate) mod text;

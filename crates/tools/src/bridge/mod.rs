//! Host tools called from inside Python.

mod deliver;
mod expand;
mod responses;
mod run;

pub use run::RanCell;

pub(crate) use responses::Responses;

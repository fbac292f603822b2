//! The limits of a session, with their defaults.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json::duration::seconds;
use crate::json::fields::{Field, Fields};
use crate::json::invalid::Invalid;
use crate::json::quantity::{Bytes, Count, Cpus, Seconds, check_cpus, check_seconds, to_duration};

/// The resources that a session may use. In JSON sizes are bytes and times are seconds; on the way in, texts such as
/// `"512MB"` and `"5min"` do as well, and what is absent has its default.
///
/// ```
/// use cellblock_protocol::Limits;
/// use std::time::Duration;
///
/// let limits = Limits { wall: Duration::from_secs(5), ..Limits::DEFAULT };
/// assert!(limits.validate().is_ok());
///
/// let read: Limits = serde_json::from_str(r#"{"wall": "5s", "memory": "2GiB"}"#).unwrap();
/// assert_eq!(read, limits);
/// assert!(serde_json::from_str::<Limits>(r#"{"memory": "1kB"}"#).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct Limits {
    /// Memory of the whole session, in bytes. Default 2 GiB.
    pub memory: u64,
    /// Wall-clock time of one cell. Default 30 s.
    #[serde(serialize_with = "seconds::serialize")]
    pub wall: Duration,
    /// Processes and threads beyond the interpreter's own. Default 64.
    pub processes: u64,
    /// Processors that the whole session may use at a time, such as 0.5 or 2. Default null: as many as there are. Needs cgroups, or a
    /// container.
    pub cpus: Option<f64>,
    /// Open files per process. Default 1024.
    pub open_files: u64,
    /// New data on disk, in bytes. Default 1 GiB.
    pub disk: u64,
    /// Bytes of each stream that stay in the result. Default 1 MB.
    pub output_kept: u64,
    /// Bytes of each stream that can be read afterwards with `read_output`. Default 64 MB.
    pub output_spilled: u64,
    /// An unused session ends after this time. Default 30 min.
    #[serde(serialize_with = "seconds::serialize")]
    pub idle: Duration,
    /// How many checkpoints are kept for `undo`. Default 10.
    pub checkpoints: u64,
    /// The memory that checkpoints may hold, in bytes; null means a quarter of `memory`.
    pub checkpoint_memory: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Limits {
    /// What a session has that asks for no limits. The one definition of these numbers: flags, settings and errors take them from here, and
    /// a test compares the pages with it.
    pub const DEFAULT: Self = Self {
        memory: 2 << 30,
        wall: Duration::from_secs(30),
        processes: 64,
        cpus: None,
        open_files: 1024,
        disk: 1 << 30,
        output_kept: 1_000_000,
        output_spilled: 64_000_000,
        idle: Duration::from_secs(30 * 60),
        checkpoints: 10,
        checkpoint_memory: None,
    };

    const FIELDS: &'static [&'static str] = &[
        "memory",
        "wall",
        "processes",
        "cpus",
        "open_files",
        "disk",
        "output_kept",
        "output_spilled",
        "idle",
        "checkpoints",
        "checkpoint_memory",
    ];

    /// The memory that checkpoints may hold.
    pub fn checkpoint_budget(&self) -> u64 {
        self.checkpoint_memory.unwrap_or(self.memory / 4)
    }

    /// Refuses what would not start, would never end, or can only be a slip of the unit.
    pub fn validate(&self) -> Result<(), Invalid> {
        // Below 32 MiB the interpreter does not even start.
        check_size("memory", self.memory, 32 << 20, LARGEST)?;
        check_seconds("wall", self.wall.as_secs_f64())?;
        check_count("processes", self.processes, 1, 65_536)?;
        if let Some(cpus) = self.cpus {
            check_cpus("cpus", cpus)?;
        }
        // The interpreter's own files and the import system need a few.
        check_count("open_files", self.open_files, 16, 1 << 20)?;
        check_size("disk", self.disk, 1, LARGEST)?;
        // Held in the host's memory, three times per cell (stdout, stderr, output).
        check_size("output_kept", self.output_kept, 1, 256 << 20)?;
        check_size("output_spilled", self.output_spilled, 1, LARGEST)?;
        check_seconds("idle", self.idle.as_secs_f64())?;
        check_count("checkpoints", self.checkpoints, 1, 50)?;
        if let Some(bytes) = self.checkpoint_memory {
            check_size("checkpoint_memory", bytes, 1, LARGEST)?;
        }
        Ok(())
    }
}

impl TryFrom<Map<String, Value>> for Limits {
    type Error = Invalid;

    fn try_from(map: Map<String, Value>) -> Result<Self, Invalid> {
        let mut fields = Fields::new(map);
        let mut limits = Self::default();
        take_bytes(&mut fields, "memory", &mut limits.memory)?;
        take_time(&mut fields, "wall", &mut limits.wall)?;
        take_count(&mut fields, "processes", &mut limits.processes)?;
        limits.cpus = fields.optional::<Cpus>("cpus")?.map(|cpus| cpus.0);
        take_count(&mut fields, "open_files", &mut limits.open_files)?;
        take_bytes(&mut fields, "disk", &mut limits.disk)?;
        take_bytes(&mut fields, "output_kept", &mut limits.output_kept)?;
        take_bytes(&mut fields, "output_spilled", &mut limits.output_spilled)?;
        take_time(&mut fields, "idle", &mut limits.idle)?;
        take_count(&mut fields, "checkpoints", &mut limits.checkpoints)?;
        limits.checkpoint_memory = fields
            .optional::<Bytes>("checkpoint_memory")?
            .map(|bytes| bytes.0);
        fields.finish(Self::FIELDS)?;
        limits.validate()?;
        Ok(limits)
    }
}

impl Field for Limits {
    const EXPECTED: &'static str = "an object of limits";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        let Value::Object(map) = value else {
            return Err(Self::refuse(name, &value));
        };
        Self::try_from(map).map_err(|error| error.inside(name))
    }
}

const LARGEST: u64 = 16 << 40;

fn check_size(field: &str, bytes: u64, least: u64, most: u64) -> Result<(), Invalid> {
    check(field, bytes, least, most, " bytes")
}

fn check_count(field: &str, count: u64, least: u64, most: u64) -> Result<(), Invalid> {
    check(field, count, least, most, "")
}

fn check(field: &str, amount: u64, least: u64, most: u64, unit: &str) -> Result<(), Invalid> {
    if (least..=most).contains(&amount) {
        return Ok(());
    }
    Err(Invalid::value(
        field,
        format!("{least} to {most}{unit}"),
        amount.to_string(),
    ))
}

fn take_bytes(fields: &mut Fields, name: &str, into: &mut u64) -> Result<(), Invalid> {
    if let Some(Bytes(bytes)) = fields.optional(name)? {
        *into = bytes;
    }
    Ok(())
}

fn take_count(fields: &mut Fields, name: &str, into: &mut u64) -> Result<(), Invalid> {
    if let Some(Count(count)) = fields.optional(name)? {
        *into = count;
    }
    Ok(())
}

fn take_time(fields: &mut Fields, name: &str, into: &mut Duration) -> Result<(), Invalid> {
    if let Some(Seconds(seconds)) = fields.optional(name)? {
        check_seconds(name, seconds)?;
        *into = to_duration(name, seconds)?;
    }
    Ok(())
}

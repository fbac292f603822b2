//! Options of a session that runs in a container.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::json::fields::{Field, Fields};
use crate::json::invalid::{Invalid, shown_text};
use crate::json::quantity::{Cpus, check_cpus};

/// A session that lives in a container of its own, and not behind the walls of this machine's kernel alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContainerOptions {
    /// The image. Default `python:3.12`.
    pub image: String,
    /// How many processors it may use. Default 1.
    pub cpus: f64,
    /// A volume of the engine's with packages, which sessions can read and import from. Default `cellblock-environment`.
    pub volume: String,
    /// Whether what the container writes is logged, line by line. Default true.
    pub stream_container_output: bool,
}

impl Default for ContainerOptions {
    fn default() -> Self {
        Self {
            image: "python:3.12".to_owned(),
            cpus: 1.0,
            volume: "cellblock-environment".to_owned(),
            stream_container_output: true,
        }
    }
}

impl ContainerOptions {
    const FIELDS: &'static [&'static str] = &["image", "cpus", "volume", "stream_container_output"];

    /// In this image, the rest by default.
    pub fn image(image: impl Into<String>) -> Self {
        Self {
            image: image.into(),
            ..Self::default()
        }
    }

    /// Refuses what no engine would take.
    pub fn validate(&self) -> Result<(), Invalid> {
        let is_image = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
        if self.image.is_empty() || self.image.len() > 512 || !self.image.chars().all(is_image) {
            let expected = "the name of an image, such as `python:3.12`";
            return Err(Invalid::value("image", expected, shown_text(&self.image)));
        }
        let is_volume = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if !(2..=128).contains(&self.volume.len())
            || !self.volume.starts_with(|c: char| c.is_ascii_alphanumeric())
            || !self.volume.chars().all(is_volume)
        {
            let expected = "the name of a volume: letters, digits, `.`, `_` and `-`";
            return Err(Invalid::value("volume", expected, shown_text(&self.volume)));
        }
        check_cpus("cpus", self.cpus)
    }
}

impl Field for ContainerOptions {
    const EXPECTED: &'static str = "an object such as {\"image\": \"python:3.12\"}";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        let Value::Object(map) = value else {
            return Err(Self::refuse(name, &value));
        };
        from_object(map).map_err(|error| error.inside(name))
    }
}

fn from_object(map: Map<String, Value>) -> Result<ContainerOptions, Invalid> {
    let default = ContainerOptions::default();
    let mut fields = Fields::new(map);
    let options = ContainerOptions {
        image: fields.optional("image")?.unwrap_or(default.image),
        cpus: fields
            .optional::<Cpus>("cpus")?
            .map_or(default.cpus, |cpus| cpus.0),
        volume: fields.optional("volume")?.unwrap_or(default.volume),
        stream_container_output: fields
            .optional("stream_container_output")?
            .unwrap_or(default.stream_container_output),
    };
    fields.finish(ContainerOptions::FIELDS)?;
    options.validate()?;
    Ok(options)
}

//! The Python of an image: what packages for its sessions must fit to.

use crate::state_directory::next_number;
use crate::{Error, Refusal};
use cellblock_docker::{ContainerSpec, Engine, Output, OutputStream};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::timeout;

/// How long a container may take that only looks at its Python, on a busy machine.
const PROBE_TIMEOUT: Duration = Duration::from_secs(60);
/// What the description of a Python may take: images have hundreds of packages.
const MAX_DESCRIPTION_BYTES: usize = 1 << 20;
/// Prints a Python as JSON. Long lines come in pieces, so it prints each package on a line of its own.
const PROBE: &str = include_str!("image_python.py");

/// The image of a session's container, and the engine that has it.
#[derive(Clone, Debug)]
pub(crate) struct SessionImage {
    pub(crate) engine: Engine,
    pub(crate) name: String,
}

/// The Python of an image.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct ImagePython {
    /// The version, such as `3.12.1`.
    pub version: String,
    /// The kind of processor, as `uname` names it: `x86_64`, `aarch64`.
    pub machine: String,
    /// The C library: `glibc` or `musl`.
    pub libc: String,
    /// The tag of compiled modules (`cpython-312-x86_64-linux-gnu`).
    pub soabi: String,
    /// The packages of the image, `name==version` each.
    #[serde(skip)]
    pub packages: Vec<String>,
}

impl SessionImage {
    /// Asks the image's Python what it is, in a container that sees nothing else.
    pub(crate) async fn python(&self) -> Result<ImagePython, Error> {
        let asked = timeout(PROBE_TIMEOUT, self.probe()).await;
        asked.unwrap_or_else(|_| Err(self.unreadable("it did not answer in time")))
    }

    async fn probe(&self) -> Result<ImagePython, Error> {
        const MIB: u64 = 1 << 20;
        const NOBODY: u32 = 65_534;
        let command = ["python3", "-I", "-B", "-X", "utf8", "-c", PROBE];
        let spec = ContainerSpec {
            name: format!("cellblock-probe-{}-{}", std::process::id(), next_number()),
            image: self.name.clone(),
            command: command.map(str::to_owned).to_vec(),
            user_id: NOBODY,
            group_id: NOBODY,
            working_directory: "/".to_owned(),
            environment: BTreeMap::new(),
            mounts: Vec::new(),
            memory_bytes: 256 * MIB,
            cpus: 1.0,
            max_processes: 16,
            max_open_files: 256,
            temporary_bytes: MIB,
        };
        let container = self.engine.create(&spec).await?;
        let output = container.attach().await?;
        let described = async {
            container.start().await?;
            self.read(output).await
        };
        let described = described.await;
        container.remove().await?;
        described
    }

    async fn read(&self, mut output: Output) -> Result<ImagePython, Error> {
        let mut python: Option<ImagePython> = None;
        let mut packages = Vec::new();
        let mut bytes = 0;
        while let Some(line) = output.next_line().await {
            bytes += line.text.len();
            if bytes > MAX_DESCRIPTION_BYTES {
                return Err(self.unreadable("it has too much to say"));
            }
            match (&python, line.stream) {
                (_, OutputStream::Stderr) => {}
                (None, _) => {
                    let read = serde_json::from_str(&line.text);
                    python = Some(read.map_err(|error| self.unreadable(&error.to_string()))?);
                }
                (Some(_), _) => packages.push(line.text),
            }
        }
        let python = python.ok_or_else(|| self.unreadable("it said nothing"))?;
        Ok(ImagePython { packages, ..python })
    }

    fn unreadable(&self, why: &str) -> Error {
        let (image, reason) = (self.name.clone(), why.to_owned());
        Error::Refused(Refusal::ImagePython { image, reason })
    }
}

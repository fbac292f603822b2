//! What a container shall be like.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A container that goes when its process ends: no network, no capabilities, and a root directory that cannot be changed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its name, for people who list containers: letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// The image.
    pub image: String,
    /// The program and its arguments, in place of the image's own.
    pub command: Vec<String>,
    /// The user and the group that it runs as.
    pub user: (u32, u32),
    /// The working directory.
    pub directory: String,
    /// Variables beside those of the image.
    pub environment: BTreeMap<String, String>,
    /// What of the host it sees.
    pub mounts: Vec<Mount>,
    /// Bytes of memory for all its processes.
    pub memory: u64,
    /// Processors, such as 1.5.
    pub cpus: f64,
    /// Processes and threads.
    pub processes: u64,
    /// Open files of a process.
    pub open_files: u64,
    /// Bytes in `/tmp`, and in `/dev/shm`: both are memory.
    pub temporary: u64,
}

/// Something of the host's inside a container.
#[derive(Clone, Debug)]
pub enum Mount {
    /// A file or directory that the code may change.
    Writable(PathBuf, &'static str),
    /// One that it may only read.
    Readable(PathBuf, &'static str),
    /// A volume of the engine's, to be read only; made if it is not there.
    Volume(String, &'static str),
}

impl Plan {
    pub(crate) fn to_json(&self) -> Value {
        let (user, group) = self.user;
        let variables = self.environment.iter();
        let environment: Vec<String> = variables
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let mounts: Vec<Value> = self.mounts.iter().map(Mount::to_json).collect();
        let temporary = format!("rw,nosuid,nodev,mode=1777,size={}", self.temporary);
        let open_files =
            json!({"Name": "nofile", "Soft": self.open_files, "Hard": self.open_files});
        json!({
            "Image": self.image,
            "Entrypoint": self.command,
            "Cmd": [],
            "User": format!("{user}:{group}"),
            "WorkingDir": self.directory,
            "Env": environment,
            "AttachStdout": true,
            "AttachStderr": true,
            "NetworkDisabled": true,
            "Labels": {"cellblock": "session"},
            "HostConfig": {
                "AutoRemove": true,
                "ReadonlyRootfs": true,
                "NetworkMode": "none",
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges"],
                "Memory": self.memory,
                "MemorySwap": self.memory,
                "NanoCpus": (self.cpus * 1e9) as u64,
                "PidsLimit": self.processes,
                "ShmSize": self.temporary,
                "Tmpfs": {"/tmp": temporary},
                "Ulimits": [open_files, {"Name": "core", "Soft": 0, "Hard": 0}],
                "Mounts": mounts,
                // What it says is read from the stream, and kept nowhere.
                "LogConfig": {"Type": "none"},
            },
        })
    }
}

impl Mount {
    fn to_json(&self) -> Value {
        let bind = |path: &Path, target: &str, read_only: bool| json!({"Type": "bind", "Source": path, "Target": target, "ReadOnly": read_only});
        match self {
            Mount::Writable(path, target) => bind(path, target, false),
            Mount::Readable(path, target) => bind(path, target, true),
            Mount::Volume(name, target) => {
                json!({"Type": "volume", "Source": name, "Target": target, "ReadOnly": true})
            }
        }
    }
}

//! One container: what it is created from, and its life.

use crate::engine::{ApiRequest, Connection, read_answer};
use crate::output::Output;
use crate::{Engine, Error};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A container that was created. Dropping the value does not stop or remove the container.
#[derive(Clone, Debug)]
pub struct Container {
    engine: Engine,
    id: String,
}

impl Container {
    pub(crate) fn new(engine: Engine, id: &str) -> Container {
        Container {
            engine,
            id: id.to_owned(),
        }
    }

    /// The engine's id of the container.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The output of the container's processes from now on. Attach before [`Container::start`]: lines
    /// written earlier are lost.
    pub async fn attach(&self) -> Result<Output, Error> {
        let path = self.path("attach?stream=1&stdout=1&stderr=1");
        let request = ApiRequest::post("to read a container's output", &path);
        let answer = self.engine.send(request, Connection::Upgraded).await?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            let (status, answer) = read_answer(request, answer).await?;
            return Err(request.refused(status, &answer));
        }
        let stream = hyper::upgrade::on(answer).await;
        Ok(Output::new(
            stream.map_err(|error| request.no_answer(error))?,
        ))
    }

    /// Starts the container.
    pub async fn start(&self) -> Result<(), Error> {
        let path = self.path("start");
        let request = ApiRequest::post("to start a container", &path);
        match self.engine.send_and_read(request).await? {
            (status, _) if status.is_success() => Ok(()),
            (status, answer) => Err(request.refused(status, &answer)),
        }
    }

    /// Waits, without a time limit, until the container has ended and is removed; returns its exit code.
    /// The end of the engine is an error.
    pub async fn wait(&self) -> Result<i64, Error> {
        let path = self.path("wait?condition=removed");
        let request = ApiRequest::post("when a container ends", &path);
        let answer = self.engine.send(request, Connection::Plain).await?;
        match read_answer(request, answer).await? {
            (status, answer) if status.is_success() => {
                let code = answer.get("StatusCode").and_then(|code| code.as_i64());
                code.ok_or_else(|| request.no_answer("the answer has no exit code"))
            }
            (status, answer) => Err(request.refused(status, &answer)),
        }
    }

    /// Kills the container if it runs, and removes it. A container that is gone already is fine.
    pub async fn remove(&self) -> Result<(), Error> {
        let path = format!("/containers/{}?force=1&v=1", self.id);
        let request = ApiRequest {
            method: &Method::DELETE,
            ..ApiRequest::post("to remove a container", &path)
        };
        match self.engine.send_and_read(request).await? {
            (status, _) if status.is_success() => Ok(()),
            // Already removed, or being removed: the container removes itself at its end.
            (StatusCode::NOT_FOUND | StatusCode::CONFLICT, _) => Ok(()),
            (status, answer) => Err(request.refused(status, &answer)),
        }
    }

    fn path(&self, action: &str) -> String {
        format!("/containers/{}/{action}", self.id)
    }
}

/// What a container is created from. Every container has no network, no capabilities and a read-only
/// root directory, and is removed when its first process ends.
#[derive(Clone, Debug)]
pub struct ContainerSpec {
    /// The container's name, which `docker ps` shows: letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// The image.
    pub image: String,
    /// The program and its arguments, instead of the image's own.
    pub command: Vec<String>,
    /// The user that the command runs as.
    pub user_id: u32,
    /// The group that the command runs as.
    pub group_id: u32,
    /// The working directory of the command.
    pub working_directory: String,
    /// Environment variables in addition to those of the image.
    pub environment: BTreeMap<String, String>,
    /// Files and directories of the host, and volumes, that the container sees.
    pub mounts: Vec<Mount>,
    /// The memory limit of all processes together.
    pub memory_bytes: u64,
    /// The processor limit, such as 1.5.
    pub cpus: f64,
    /// The most processes and threads.
    pub max_processes: u64,
    /// The most open files of one process.
    pub max_open_files: u64,
    /// The size of `/tmp`, and of `/dev/shm`. Both are memory.
    pub temporary_bytes: u64,
}

/// A file, directory or volume inside a container.
#[derive(Clone, Debug)]
pub enum Mount {
    /// A file or directory of the host that the container may change.
    Writable {
        /// The path on the host.
        source: PathBuf,
        /// The path in the container.
        target: String,
    },
    /// A file or directory of the host that the container may only read.
    ReadOnly {
        /// The path on the host.
        source: PathBuf,
        /// The path in the container.
        target: String,
    },
    /// A volume of the engine, read-only. The engine creates a volume that does not exist.
    Volume {
        /// The volume's name.
        name: String,
        /// The path in the container.
        target: String,
    },
}

impl ContainerSpec {
    pub(crate) fn to_json(&self) -> Value {
        let variables = self.environment.iter();
        let environment: Vec<String> = variables
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let mounts: Vec<Value> = self.mounts.iter().map(Mount::to_json).collect();
        let tmpfs = format!("rw,nosuid,nodev,mode=1777,size={}", self.temporary_bytes);
        let open_files =
            json!({"Name": "nofile", "Soft": self.max_open_files, "Hard": self.max_open_files});
        json!({
            "Image": self.image,
            "Entrypoint": self.command,
            "Cmd": [],
            "User": format!("{}:{}", self.user_id, self.group_id),
            "WorkingDir": self.working_directory,
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
                "Memory": self.memory_bytes,
                "MemorySwap": self.memory_bytes,
                "NanoCpus": (self.cpus * 1e9) as u64,
                "PidsLimit": self.max_processes,
                "ShmSize": self.temporary_bytes,
                "Tmpfs": {"/tmp": tmpfs},
                "Ulimits": [open_files, {"Name": "core", "Soft": 0, "Hard": 0}],
                "Mounts": mounts,
                // The output is read from the attached stream; the engine keeps no copy.
                "LogConfig": {"Type": "none"},
            },
        })
    }
}

impl Mount {
    fn to_json(&self) -> Value {
        let (kind, source, target, is_read_only) = match self {
            Mount::Writable { source, target } => ("bind", source.as_path(), target, false),
            Mount::ReadOnly { source, target } => ("bind", source.as_path(), target, true),
            Mount::Volume { name, target } => ("volume", Path::new(name), target, true),
        };
        json!({"Type": kind, "Source": source, "Target": target, "ReadOnly": is_read_only})
    }
}

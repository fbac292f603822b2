//! The connection file: where a kernel listens, and the key of its messages.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The contents of a connection file, as a Jupyter client writes it.
#[derive(Clone, Deserialize)]
pub struct ConnectionFile {
    transport: String,
    ip: String,
    /// The ports of the sockets.
    #[serde(flatten)]
    pub ports: Ports,
    /// The key that messages are signed with.
    #[serde(default)]
    pub key: String,
    #[serde(default)]
    signature_scheme: String,
}

/// The ports of a kernel's sockets, as connection files and `connect_reply` have them.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Ports {
    /// The port of the shell channel.
    pub shell_port: u16,
    /// The port of the control channel.
    pub control_port: u16,
    /// The port of the stdin channel.
    pub stdin_port: u16,
    /// The port of the iopub channel.
    pub iopub_port: u16,
    /// The port of the heartbeat.
    pub hb_port: u16,
}

/// Why a connection file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The file cannot be read.
    #[error("the connection file {path} cannot be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file is not what a Jupyter client writes.
    #[error("the connection file {path} is not valid")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The parser's reason.
        source: serde_json::Error,
    },
    /// The file asks for something that this kernel does not have.
    #[error("the connection file {path} asks for {what}, which this kernel does not offer")]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The field with its value.
        what: String,
    },
}

impl ConnectionFile {
    /// Reads a connection file.
    pub fn read(path: &Path) -> Result<Self, ConnectionError> {
        let text = std::fs::read(path).map_err(|source| ConnectionError::Read {
            path: path.to_owned(),
            source,
        })?;
        let file: Self =
            serde_json::from_slice(&text).map_err(|source| ConnectionError::Invalid {
                path: path.to_owned(),
                source,
            })?;
        let unsupported = |what| ConnectionError::Unsupported {
            path: path.to_owned(),
            what,
        };
        if !["tcp", "ipc"].contains(&file.transport.as_str()) {
            return Err(unsupported(format!("the transport {}", file.transport)));
        }
        if !["", "hmac-sha256"].contains(&file.signature_scheme.as_str()) {
            let what = format!("the signature scheme {}", file.signature_scheme);
            return Err(unsupported(what));
        }
        Ok(file)
    }

    /// The address of the socket with this port: `tcp://127.0.0.1:5000`, or `ipc:///run/kernel-5000`.
    pub fn endpoint(&self, port: u16) -> String {
        let separator = if self.transport == "ipc" { '-' } else { ':' };
        format!("{}://{}{separator}{port}", self.transport, self.ip)
    }
}

impl std::fmt::Debug for ConnectionFile {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the key: it opens the kernel to its reader.
        write!(
            out,
            "ConnectionFile({})",
            self.endpoint(self.ports.shell_port)
        )
    }
}

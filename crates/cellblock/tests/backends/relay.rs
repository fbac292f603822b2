//! A socket in front of the engine's, which can be cut: to the host, that is an engine that dies.

use std::fs;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::{io, thread};

pub(crate) struct Relay {
    pub(crate) path: PathBuf,
    connections: Arc<Mutex<Option<Vec<UnixStream>>>>,
}

impl Relay {
    /// Hands on to `engine` what comes in at `path`.
    pub(crate) fn new(path: PathBuf, engine: &Path) -> Relay {
        let listener = UnixListener::bind(&path).unwrap();
        let connections = Arc::new(Mutex::new(Some(Vec::new())));
        let (noted, engine) = (Arc::clone(&connections), engine.to_owned());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = UnixStream::connect(&engine).unwrap();
                let Some(open) = &mut *noted.lock().unwrap() else {
                    return;
                };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    open.push(from.try_clone().unwrap());
                    thread::spawn(move || {
                        let _ = io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Write);
                    });
                }
            }
        });
        Relay { path, connections }
    }

    /// Ends every connection, and takes no more.
    pub(crate) fn cut(&self) {
        let _ = fs::remove_file(&self.path);
        for connection in self.connections.lock().unwrap().take().unwrap() {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

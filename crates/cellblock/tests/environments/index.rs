//! A package index on this machine, and a second host beside it.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::{fs, thread};

/// A server that answers with what it was given, and remembers what it was asked for.
pub(crate) struct Index {
    /// `127.0.0.1:port`.
    pub(crate) host: String,
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Index {
    pub(crate) fn new() -> Index {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let index = Index {
            host: listener.local_addr().unwrap().to_string(),
            files: Arc::default(),
            asked: Arc::default(),
        };
        let (files, asked) = (Arc::clone(&index.files), Arc::clone(&index.asked));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (files, asked) = (Arc::clone(&files), Arc::clone(&asked));
                thread::spawn(move || answer(client, &files, &asked));
            }
        });
        index
    }

    /// Its address, as settings name it.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/simple/", self.host)
    }

    /// Offers the wheel of a package, which lies on the shelf, and whose file the page says to be on a host.
    pub(crate) fn offer(&self, name: &str, host: &str) {
        let page = format!(
            "<a href='http://{host}/{name}-1.0-py3-none-any.whl'>{name}-1.0-py3-none-any.whl</a>"
        );
        self.put(&format!("/simple/{name}/"), page.into_bytes());
    }

    /// Has the file of a package, which lies on the shelf.
    pub(crate) fn keep(&self, name: &str) {
        let file = format!("{name}-1.0-py3-none-any.whl");
        let wheel = fs::read(crate::packages::package_directory().join(&file)).unwrap();
        self.put(&format!("/{file}"), wheel);
    }

    /// What it was asked for so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn put(&self, path: &str, content: Vec<u8>) {
        self.files.lock().unwrap().insert(path.to_owned(), content);
    }
}

fn answer(
    mut client: TcpStream,
    files: &Mutex<BTreeMap<String, Vec<u8>>>,
    asked: &Mutex<Vec<String>>,
) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && matches!(client.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.split(' ');
    let (method, asked_for) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    // As a proxy it is asked with the host, which is always itself.
    let path = match asked_for.strip_prefix("http://") {
        Some(rest) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => asked_for,
    };
    asked.lock().unwrap().push(asked_for.to_owned());
    let found = files.lock().unwrap().get(path).cloned();
    let (status, body) = match found {
        Some(body) => ("200 OK", body),
        None => ("404 Not Found", Vec::new()),
    };
    let kind = if path.ends_with(".whl") {
        "application/octet-stream"
    } else {
        "text/html"
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nCache-Control: max-age=600\r\nConnection: close\r\n\r\n"
    );
    let _ = client.write_all(head.as_bytes());
    if method != "HEAD" {
        let _ = client.write_all(&body);
    }
}

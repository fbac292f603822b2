//! Downloads that go on where they stopped, checked by their hash.

use crate::error::Error;
use crate::source::{is_sha256, shown};
use futures_util::StreamExt as _;
use reqwest::header::{HeaderMap, RANGE};
use reqwest::{Response, StatusCode, Url};
use sha2::{Digest as _, Sha256};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::Duration;

/// Attempts in a row that bring nothing before a download fails.
const MAX_ATTEMPTS: u32 = 5;
/// Space on the disk that a download leaves free.
pub(crate) const SPARE_BYTES: u64 = 200 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest wait for more of a file.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// The header in which the hub says the SHA-256 of a large file.
const HUB_HASH_HEADER: &str = "x-linked-etag";

/// How far a download has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DownloadProgress {
    /// The bytes that are there.
    pub done: u64,
    /// The bytes of the whole, when that is known.
    pub total: Option<u64>,
}

/// The hash of a file on the hub, from the hub's own header.
pub(crate) async fn hub_hash(url: &Url) -> Result<String, Error> {
    let client = client(reqwest::redirect::Policy::none())?;
    let failed = |problem: String| Error::Download {
        address: shown(url),
        problem,
    };
    let response = client.head(url.clone()).send().await;
    let response = response.map_err(|error| failed(cause(&error)))?;
    let status = response.status();
    if status.is_client_error() || status.is_server_error() {
        return Err(failed(format!("status {status}")));
    }
    let hash = response.headers().get(HUB_HASH_HEADER);
    let hash = hash.and_then(|value| Some(value.to_str().ok()?.trim_matches('"').to_lowercase()));
    hash.filter(|hash| is_sha256(hash)).ok_or_else(|| {
        failed("the hub says no hash for this file: name it with --sha256".to_owned())
    })
}

/// Downloads a file. What an earlier attempt left in `partial` is continued. A file with another hash is removed.
pub(crate) async fn fetch(
    url: &Url,
    sha256: &str,
    partial: &Path,
    on_progress: &mut (dyn FnMut(DownloadProgress) + Send),
) -> Result<(), Error> {
    let client = client(reqwest::redirect::Policy::limited(5))?;
    let mut attempts = 0;
    loop {
        let before = length(partial);
        match fetch_once(&client, url, partial, on_progress).await {
            Ok(()) => break,
            Err(error @ (Error::DiskFull { .. } | Error::Io { .. })) => return Err(error),
            Err(error) => {
                attempts = if length(partial) > before {
                    1
                } else {
                    attempts + 1
                };
                if attempts >= MAX_ATTEMPTS {
                    return Err(error);
                }
                tokio::time::sleep(Duration::from_millis(500) * attempts).await;
            }
        }
    }
    check_hash(partial, sha256).await
}

/// Compares the hash of a file. A file with another hash is removed.
pub(crate) async fn check_hash(path: &Path, expected: &str) -> Result<(), Error> {
    let file = path.to_owned();
    let hashed = tokio::task::spawn_blocking(move || hash_of(&file)).await;
    let hashed = hashed.map_err(std::io::Error::other).flatten();
    let found = hashed.map_err(Error::io("read", path))?;
    if found == expected {
        return Ok(());
    }
    std::fs::remove_file(path).map_err(Error::io("remove", path))?;
    let expected = expected.to_owned();
    Err(Error::WrongHash { expected, found })
}

/// Fails where the disk of a directory has no space for so many more bytes.
pub(crate) fn check_space(directory: &Path, more: u64) -> Result<(), Error> {
    let statistics = rustix::fs::statvfs(directory).map_err(std::io::Error::from);
    let statistics = statistics.map_err(Error::io("read", directory))?;
    let free = statistics.f_bavail * statistics.f_frsize;
    let needed = more + SPARE_BYTES;
    match free >= needed {
        true => Ok(()),
        false => Err(Error::DiskFull {
            path: directory.to_owned(),
            free,
            needed,
        }),
    }
}

async fn fetch_once(
    client: &reqwest::Client,
    url: &Url,
    partial: &Path,
    on_progress: &mut (dyn FnMut(DownloadProgress) + Send),
) -> Result<(), Error> {
    let failed = |problem: String| Error::Download {
        address: shown(url),
        problem,
    };
    let mut file = open(partial)?;
    let mut done = file
        .seek(SeekFrom::End(0))
        .map_err(Error::io("read", partial))?;
    let mut request = client.get(url.clone());
    if done > 0 {
        request = request.header(RANGE, format!("bytes={done}-"));
    }
    let response = request.send().await;
    let response = response.map_err(|error| failed(cause(&error)))?;
    match response.status() {
        // The file is complete: there is nothing after its last byte.
        StatusCode::RANGE_NOT_SATISFIABLE if done > 0 => return Ok(()),
        StatusCode::PARTIAL_CONTENT => {}
        StatusCode::OK => {
            // The server sends the file from its beginning.
            file.set_len(0).map_err(Error::io("write", partial))?;
            file.rewind().map_err(Error::io("write", partial))?;
            done = 0;
        }
        status => return Err(failed(format!("status {status}"))),
    }
    let rest = content_length(&response);
    let total = rest.map(|rest| rest + done);
    let directory = partial.parent().unwrap_or(partial);
    check_space(directory, rest.unwrap_or_default())?;
    on_progress(DownloadProgress { done, total });
    let mut body = response.bytes_stream();
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(|error| failed(cause(&error)))?;
        file.write_all(&piece)
            .map_err(Error::io("write", partial))?;
        done += piece.len() as u64;
        on_progress(DownloadProgress { done, total });
    }
    match total {
        Some(total) if done < total => Err(failed("the connection ended too early".to_owned())),
        _ => Ok(()),
    }
}

fn client(redirects: reqwest::redirect::Policy) -> Result<reqwest::Client, Error> {
    // `ring` is the provider that is quickest to build. A provider that the program has installed before stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .redirect(redirects)
        .default_headers(HeaderMap::new())
        .user_agent(concat!("cellblock/", env!("CARGO_PKG_VERSION")))
        .build();
    client.map_err(|error| Error::Download {
        address: "the address".to_owned(),
        problem: cause(&error),
    })
}

/// The innermost cause of an error, without the address, which may hold a key in its query.
fn cause(error: &reqwest::Error) -> String {
    let mut source: &dyn std::error::Error = error;
    while let Some(next) = source.source() {
        source = next;
    }
    match source.downcast_ref::<reqwest::Error>() {
        Some(_) => "the connection failed".to_owned(),
        None => source.to_string(),
    }
}

fn content_length(response: &Response) -> Option<u64> {
    let value = response.headers().get(reqwest::header::CONTENT_LENGTH)?;
    value.to_str().ok()?.parse().ok()
}

fn open(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    options.open(path).map_err(Error::io("write", path))
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

fn hash_of(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
    }
    Ok(hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

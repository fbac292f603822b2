//! Servers on the host's loopback, for sessions to reach or not to reach.

use super::common::{builder, open, run};
use cellblock_protocol::CellResult;
use cellblock_session::Session;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A server that notes what it is sent, and answers with `answer`.
pub(crate) struct Server {
    pub(crate) port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) fn new(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (noted, answer) = (Arc::clone(&heard), Arc::new(answer));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (noted, answer) = (Arc::clone(&noted), Arc::clone(&answer));
                thread::spawn(move || {
                    let _ = serve(client, &noted, &*answer);
                });
            }
        });
        Server { port, heard }
    }

    /// A web server with one page, on every path.
    pub(crate) fn web(page: &'static str) -> Server {
        Server::new(move |_| page_answer(page))
    }

    /// The requests so far.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

pub(crate) fn page_answer(page: impl AsRef<[u8]>) -> Vec<u8> {
    let page = page.as_ref();
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n",
        page.len()
    )
    .into_bytes();
    answer.extend_from_slice(page);
    answer
}

fn serve(
    mut client: TcpStream,
    noted: &Mutex<Vec<String>>,
    answer: &dyn Fn(&str) -> Vec<u8>,
) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 65536];
    loop {
        let read = client.read(&mut buffer)?;
        bytes.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if read == 0 || text.contains("\r\n\r\n") || text.ends_with('\n') && !text.contains("HTTP/")
        {
            noted.lock().unwrap().push(text.clone());
            client.write_all(&answer(&text))?;
            // To go while there is something unread would tear the connection.
            client.shutdown(Shutdown::Write)?;
            while client.read(&mut buffer)? > 0 {}
            return Ok(());
        }
    }
}

/// A session that may reach these.
pub(crate) fn session(rules: &[&str]) -> Session {
    let rules = rules.iter().map(|rule| rule.parse().unwrap());
    open(rules.fold(builder(), |builder, rule| builder.allow_net(rule)))
}

/// What a cell prints, if it succeeds.
pub(crate) fn prints(session: &Session, code: &str) -> String {
    let CellResult { stdout, error, .. } = run(session, code);
    assert!(error.is_none(), "{error:?}");
    stdout
}

/// The message of the exception with which a cell fails.
pub(crate) fn fails(session: &Session, code: &str) -> String {
    let result = run(session, code);
    result
        .error
        .unwrap_or_else(|| panic!("it went well: {}", result.stdout))
        .traceback
}

//! The guard between a session and a server on this machine.

use anyhow::{Context as _, ensure};
use cellblock::{Cell, Host, NetworkRule, Status};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;

const LARGE: usize = 1 << 30;
const CHUNK: usize = 1 << 20;
/// How code asks for a page and reads it to its end.
const ASK: &str = "import socket, time
buffer = bytearray(1 << 20)
def ask(path):
    begun = time.perf_counter()
    with socket.create_connection(('127.0.0.1', 3128)) as connection:
        connection.sendall(f'GET http://localhost:PORT{path} HTTP/1.1\\r\\n\\r\\n'.encode())
        size = 0
        while part := connection.recv_into(buffer):
            size += part
    return size, time.perf_counter() - begun
";

/// Milliseconds of a small request from a session, minus those of the same request made directly.
pub(super) async fn added(host: &Host, repetitions: usize) -> anyhow::Result<Vec<f64>> {
    let port = serve()?;
    let mut direct = spawn_blocking(move || ask_often(port, repetitions)).await??;
    direct.sort_by(f64::total_cmp);
    let median = direct.get(direct.len() / 2).copied().unwrap_or_default();
    let code = format!("print([ask('/')[1] * 1e3 for _ in range({repetitions})])");
    let times = printed(host, port, &code).await?;
    Ok(times.into_iter().map(|time| time - median).collect())
}

/// Milliseconds of each request without a session.
fn ask_often(port: u16, repetitions: usize) -> anyhow::Result<Vec<f64>> {
    let mut times = Vec::new();
    for _ in 0..repetitions {
        let begun = Instant::now();
        ask_directly(port)?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}

/// Megabytes in a second that come through.
pub(super) async fn throughput(host: &Host) -> anyhow::Result<Vec<f64>> {
    let port = serve()?;
    let code =
        "print([size / 1e6 / seconds for size, seconds in [ask('/large') for _ in range(5)]])";
    printed(host, port, code).await
}

/// The numbers that a cell prints as a list.
async fn printed(host: &Host, port: u16, code: &str) -> anyhow::Result<Vec<f64>> {
    let rule: NetworkRule = format!("localhost:{port}").parse()?;
    let session = host.session().allow_net(rule).start().await?;
    let code = format!("{}{code}", ASK.replace("PORT", &port.to_string()));
    let result = session
        .run(Cell::new(code).timeout(Duration::from_secs(120)))
        .await?;
    session.close().await;
    ensure!(
        result.status == Status::Success,
        "the cell failed: {:?}",
        result.error
    );
    serde_json::from_str(&result.stdout).context("the cell printed no list")
}

fn ask_directly(port: u16) -> anyhow::Result<()> {
    let mut connection = TcpStream::connect(("127.0.0.1", port))?;
    connection.write_all(b"GET / HTTP/1.1\r\n\r\n")?;
    connection.read_to_end(&mut Vec::new())?;
    Ok(())
}

/// A server for as long as this program runs; `/large` is large.
fn serve() -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let _ = client.set_read_timeout(Some(Duration::from_secs(10)));
            let _ = answer(&mut client);
        }
    });
    Ok(port)
}

fn answer(client: &mut TcpStream) -> std::io::Result<()> {
    let mut head = [0; 4096];
    let read = client.read(&mut head)?;
    if !head[..read].starts_with(b"GET /large ") {
        return client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
    let chunk = vec![b'x'; CHUNK];
    client.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n").as_bytes())?;
    for _ in 0..LARGE / CHUNK {
        client.write_all(&chunk)?;
    }
    Ok(())
}

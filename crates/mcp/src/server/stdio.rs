//! One client on standard input and output.

use super::Server;
use rmcp::service::{ServerInitializeError, serve_server_with_ct};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};

/// The longest message of a client: the largest arguments, in JSON.
const MAX_LINE_BYTES: usize = 48 << 20;

impl Server {
    /// Serves the program that started us, on standard input and output.
    pub async fn serve_stdio(&self) -> io::Result<()> {
        // Where they are pipes, no other thread has to be woken for each message.
        let (input, output) = stdio_pipes();
        self.serve_streams(input, output).await
    }

    /// Serves one client until its last word, or until [`stop`](Server::stop). Calls that run when its input ends have a few
    /// seconds to finish.
    pub async fn serve_streams(
        &self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> io::Result<()> {
        let handler = self.admit().map_err(io::Error::other)?;
        let transport =
            AsyncRwTransport::new_server(input, output).with_max_line_length(MAX_LINE_BYTES);
        let served = serve_server_with_ct(handler, transport, self.inner.stop.clone()).await;
        let outcome = match served {
            Ok(running) => running
                .waiting()
                .await
                .map(|_| ())
                .map_err(io::Error::other),
            // It went before it said what it wants.
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
                Ok(())
            }
            Err(error) => Err(io::Error::other(error)),
        };
        self.wait_for_sessions().await;
        outcome
    }
}

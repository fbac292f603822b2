//! The WebSocket of a client: all channels of a kernel in one connection.

use super::frames::{BINARY_PROTOCOL, FrameForm};
use super::kernels::ServedKernel;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::http::HeldMessage;
use crate::state::AppState;
use axum::Extension;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{self, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, State};
use axum::response::Response;
use bytes::Bytes;
use cellblock_jupyter::Outgoing;
use std::sync::Arc;

/// The longest message of a client.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Connects a client to a kernel. A kernel of another user is refused before the connection becomes a WebSocket.
pub(super) async fn connect(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    message: Option<Extension<HeldMessage>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let kernel = state.kernels().get(caller.id(), &id)?;
    let upgrade = upgrade.map_err(ApiError::no_websocket)?;
    let upgrade = upgrade
        .protocols([BINARY_PROTOCOL])
        .max_message_size(MAX_MESSAGE_BYTES)
        .max_frame_size(MAX_MESSAGE_BYTES);
    let form = match upgrade.selected_protocol() {
        Some(_) => FrameForm::Binary,
        None => FrameForm::Text,
    };
    let message = message.map_or_else(HeldMessage::default, |message| message.0);
    message.begin(state.held_bodies().of_user(caller.id()));
    Ok(upgrade.on_upgrade(move |socket| serve(socket, kernel, form, message)))
}

/// Passes messages on both ways until the client or the kernel is gone.
async fn serve(
    mut socket: WebSocket,
    kernel: Arc<ServedKernel>,
    form: FrameForm,
    held: HeldMessage,
) {
    let (client, mut messages) = kernel.connect();
    let identity = Bytes::from(client.to_string());
    loop {
        tokio::select! {
            outgoing = messages.recv() => {
                let Some(Outgoing { channel, message }) = outgoing else { break };
                if socket.send(form.encode(channel, &message)).await.is_err() {
                    break;
                }
            }
            frame = socket.recv() => {
                let Some(Ok(frame)) = frame else { break };
                if matches!(frame, ws::Message::Close(_)) {
                    break;
                }
                // Pings are answered by the library, and a malformed message has no one to be told.
                if let Some((channel, mut message)) = FrameForm::decode(&frame) {
                    message.identities = vec![identity.clone()];
                    kernel.receive(channel, message).await;
                }
                held.clear();
            }
        }
    }
    kernel.disconnect(client);
}

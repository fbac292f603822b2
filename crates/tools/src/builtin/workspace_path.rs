//! Paths as a model writes them.

use cellblock_session::Session;

/// The path relative to the workspace. Code in a session sees absolute ones and so models use them too; what leads elsewhere is
/// left as it is, for the session to refuse.
pub(crate) fn workspace_path<'a>(session: &Session, path: &'a str) -> &'a str {
    let host = session.workspace().to_string_lossy();
    let inside = ["/workspace", host.as_ref()]
        .into_iter()
        .find_map(|root| path.strip_prefix(root)?.strip_prefix('/'));
    inside.unwrap_or(path).trim_start_matches("./")
}

//! Pictures that a cell showed, saved where a person finds them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock::{CellResult, MimeBundle, Session};

const KINDS: [(&str, &str); 4] = [
    ("image/png", "png"),
    ("image/svg+xml", "svg"),
    ("image/jpeg", "jpg"),
    ("application/pdf", "pdf"),
];

/// Saves each picture in the workspace as `plots/cell-3.png`, and returns the paths.
pub(crate) async fn save(session: &Session, result: &CellResult) -> Vec<String> {
    let mut saved = Vec::new();
    for bundle in &result.displays {
        let Some((extension, contents)) = picture(bundle) else {
            continue;
        };
        let number = match saved.len() {
            0 => String::new(),
            before => format!("-{}", before + 1),
        };
        let path = format!("plots/cell-{}{number}.{extension}", result.cell);
        // A workspace that is full costs the picture, not the session.
        if session.save_file(&path, contents).await.is_ok() {
            saved.push(path);
        }
    }
    saved
}

fn picture(bundle: &MimeBundle) -> Option<(&'static str, Vec<u8>)> {
    KINDS.iter().find_map(|(mime, extension)| {
        let text = bundle.text(mime)?;
        let contents = if *mime == "image/svg+xml" {
            text.as_bytes().to_vec()
        } else {
            // Line breaks inside are allowed by MIME.
            STANDARD.decode(text.replace(['\n', '\r'], "")).ok()?
        };
        Some((*extension, contents))
    })
}

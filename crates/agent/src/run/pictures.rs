//! Pictures that a cell showed, kept as files of the run.

use crate::executor::OpenExecutor;
use cellblock_protocol::{CellResult, FileChange};
use cellblock_tools::Part;

/// The kinds of pictures and documents that are kept, with the endings of their names.
const KINDS: [(&str, &str); 5] = [
    ("image/png", "png"),
    ("image/jpeg", "jpg"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("application/pdf", "pdf"),
];

/// Saves the pictures of a cell in the workspace as `plots/cell-3.png`, and adds them to the files that the cell made. A workspace that
/// is full costs the picture, not the run.
pub(super) async fn save_pictures(
    executor: &dyn OpenExecutor,
    result: &mut CellResult,
    attachments: &[Part],
) {
    let mut count = 0;
    for part in attachments {
        let Part::Blob { mime, data, .. } = part else {
            continue;
        };
        let Some((_, ending)) = KINDS.iter().find(|(kind, _)| kind == mime) else {
            continue;
        };
        count += 1;
        let number = match count {
            1 => String::new(),
            _ => format!("-{count}"),
        };
        let path = format!("plots/cell-{}{number}.{ending}", result.cell);
        if executor.save_file(&path, data.to_vec()).await.is_ok() {
            result.files.created.push(FileChange {
                bytes: data.len() as u64,
                mime: mime.clone(),
                path,
            });
        }
    }
}

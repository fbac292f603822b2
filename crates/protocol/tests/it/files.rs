//! Kinds of files by their extensions.

use cellblock_protocol::mime_of;

#[test]
fn the_extension_says_what_a_file_is() {
    for (path, mime) in [
        ("a.csv", "text/csv"),
        ("deep/er/Photo.JPG", "image/jpeg"),
        ("archive.tar.gz", "application/gzip"),
        ("README", "application/octet-stream"),
        (".png", "application/octet-stream"),
        ("dir.png/file", "application/octet-stream"),
        ("what.is-this", "application/octet-stream"),
        ("", "application/octet-stream"),
    ] {
        assert_eq!(mime_of(path), mime, "{path}");
    }
}

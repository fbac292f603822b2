//! A short, stable name for a longer text.

/// FNV-1a with 64 bits, in hex. By hand: the standard library's hasher may change between releases, and
/// a digest crate would be a dozen dependencies for a file name. Whoever reads a file by such a name
/// compares the full text stored in it, so a collision costs time, never a mix-up.
pub(crate) fn short_name<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        // The length keeps ("ab", "c") and ("a", "bc") apart.
        let length = (part.len() as u64).to_le_bytes();
        for byte in length.iter().chain(part) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}

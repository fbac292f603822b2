//! What the entries of a workspace take on disk, kept up to date at a cost that grows with what changed.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// The size of every entry of a directory tree as it was when last looked at, and their sum.
#[derive(Debug, Default)]
pub(crate) struct SizeIndex {
    sizes: BTreeMap<PathBuf, u64>,
    bytes: u64,
}

impl SizeIndex {
    /// What was found at `root` and below it is all that is there now.
    pub(crate) fn replace(&mut self, root: &Path, found: impl IntoIterator<Item = (PathBuf, u64)>) {
        let below = (Bound::Included(root), Bound::Unbounded);
        let old: Vec<PathBuf> = self
            .sizes
            .range::<Path, _>(below)
            .map(|(path, _)| path)
            .take_while(|path| path.starts_with(root))
            .cloned()
            .collect();
        for path in old {
            let size = self.sizes.remove(&path).unwrap_or(0);
            self.bytes = self.bytes.saturating_sub(size);
        }
        for (path, size) in found {
            self.bytes = self.bytes.saturating_add(size);
            self.sizes.insert(path, size);
        }
    }

    /// The entry itself has another size; what is below it stays. One that is not known is left to [`replace`](SizeIndex::replace).
    pub(crate) fn resize(&mut self, path: &Path, size: u64) {
        if let Some(old) = self.sizes.get_mut(path) {
            self.bytes = self.bytes.saturating_sub(*old).saturating_add(size);
            *old = size;
        }
    }

    /// Bytes and entries in all.
    pub(crate) fn total(&self) -> (u64, usize) {
        (self.bytes, self.sizes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries<const N: usize>(list: [(&str, u64); N]) -> Vec<(PathBuf, u64)> {
        list.map(|(path, size)| (path.into(), size)).to_vec()
    }

    #[test]
    fn what_is_below_a_path_is_replaced_and_nothing_else() {
        let mut measure = SizeIndex::default();
        let all = entries([
            ("a", 4),
            ("a/b", 10),
            ("a/b/c", 20),
            ("a.txt", 7),
            ("ab", 1),
        ]);
        measure.replace(Path::new(""), all);
        assert_eq!(measure.total(), (42, 5));
        measure.replace(Path::new("a"), entries([("a", 4), ("a/d", 5)]));
        assert_eq!(measure.total(), (17, 4));
        measure.replace(Path::new("a"), []);
        assert_eq!(measure.total(), (8, 2));
        measure.replace(Path::new("none"), []);
        assert_eq!(measure.total(), (8, 2));
    }

    #[test]
    fn an_entry_is_resized_without_what_is_below_it() {
        let mut measure = SizeIndex::default();
        measure.replace(Path::new(""), entries([("a", 4), ("a/b", 10)]));
        measure.resize(Path::new("a"), 40);
        measure.resize(Path::new("none"), 40);
        assert_eq!(measure.total(), (50, 2));
    }
}

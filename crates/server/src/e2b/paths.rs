//! Paths of clients as paths of a sandbox.

/// The home of a sandbox's user: relative paths begin there.
pub(super) const HOME: &str = "/workspace";
/// The name of the only user.
pub(super) const USER: &str = "user";

/// The absolute path that a client means: relative ones and `~` begin at the home.
pub(super) fn absolute(path: &str) -> String {
    let path = path.trim_end_matches('/');
    match path {
        "" | "." | "~" => HOME.to_owned(),
        _ if path.starts_with('/') => path.to_owned(),
        _ => {
            let below = path.strip_prefix("~/").unwrap_or(path);
            let below = below.strip_prefix("./").unwrap_or(below);
            format!("{HOME}/{below}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_begin_at_the_home() {
        let home = |rest: &str| format!("{HOME}{rest}");
        assert_eq!(absolute("a/b.txt"), home("/a/b.txt"));
        assert_eq!(absolute("./a"), home("/a"));
        assert_eq!(absolute("~/a/"), home("/a"));
        assert_eq!(absolute("."), home(""));
        assert_eq!(absolute(""), home(""));
        assert_eq!(absolute("/tmp/a"), "/tmp/a");
    }
}

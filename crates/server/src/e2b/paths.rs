//! Paths of clients as paths of a sandbox.

use super::sandbox::Sandbox;

/// The home of a sandbox's user, where the walls of this machine can put it there.
pub(super) const HOME: &str = "/home/user";
/// The name of the only user.
pub(super) const USER: &str = "user";

impl Sandbox {
    /// The home of the sandbox's user: its workspace.
    pub(super) fn home(&self) -> String {
        let home = self.live.session.workspace_at();
        home.to_string_lossy().into_owned()
    }

    /// The absolute path that a client means: relative ones and `~` begin at the home.
    pub(super) fn absolute(&self, path: &str) -> String {
        absolute(&self.home(), path)
    }
}

fn absolute(home: &str, path: &str) -> String {
    let path = path.trim_end_matches('/');
    match path {
        "" | "." | "~" => home.to_owned(),
        _ if path.starts_with('/') => path.to_owned(),
        _ => {
            let below = path.strip_prefix("~/").unwrap_or(path);
            let below = below.strip_prefix("./").unwrap_or(below);
            format!("{home}/{below}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::absolute;

    #[test]
    fn relative_paths_begin_at_the_home() {
        for (path, expected) in [
            ("a/b.txt", "/h/a/b.txt"),
            ("./a", "/h/a"),
            ("~/a/", "/h/a"),
            (".", "/h"),
            ("", "/h"),
            ("/tmp/a", "/tmp/a"),
        ] {
            assert_eq!(absolute("/h", path), expected);
        }
    }
}

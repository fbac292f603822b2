//! Where packages come from, as settings name it: which hosts that makes, and which directories.

use std::path::{Path, PathBuf};

use crate::{Error, Proxies, Variables};

/// The hosts of an index that is not named by the settings: PyPI, and where it keeps its files.
const PYPI: [&str; 2] = ["pypi.org", "files.pythonhosted.org"];
/// More hosts, for an index whose files lie elsewhere. Named by the user.
pub(crate) const MORE_HOSTS: &str = "CELLBLOCK_INDEX_HOSTS";
/// Variables with the path of certificates or of a client's key.
const CERTIFICATES: [&str; 5] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "SSL_CLIENT_CERT",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
];

/// All that an installer must reach and read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// Only directories count.
    pub(crate) no_index: bool,
    /// In the place of PyPI.
    pub(crate) default_index: Option<String>,
    /// Further indexes and pages with links.
    pub(crate) addresses: Vec<String>,
    /// Directories with packages, files with certificates.
    pub(crate) files: Vec<PathBuf>,
    /// What stands between.
    pub(crate) proxies: Proxies,
    /// The user's home, which no installer sees.
    pub(crate) home: Option<PathBuf>,
}

impl Places {
    /// Adds what a setting names: addresses (`name=https://…` too) and paths, one or several.
    pub(crate) fn add(&mut self, text: &str) {
        for word in text.split(|c: char| c.is_whitespace() || c == ',') {
            let address = unnamed(word);
            if address.contains("://") && !address.starts_with("file://") {
                self.addresses.push(address.to_owned());
            } else {
                self.files.extend(local(address));
            }
        }
    }

    /// Adds what variables say for every installer.
    pub(crate) fn add_common(&mut self, variables: &Variables) {
        let paths = CERTIFICATES
            .iter()
            .filter_map(|name| variables.absolute_path(name));
        self.files.extend(paths);
        self.home = variables.absolute_path("HOME");
        self.add_proxies(variables);
        let more = variables.get(MORE_HOSTS).unwrap_or_default();
        let more = more.to_string_lossy();
        let hosts = more.split(|c: char| c.is_whitespace() || c == ',');
        self.addresses
            .extend(hosts.filter(|host| !host.is_empty()).map(|host| {
                let plain = host.rsplit("://").next().unwrap_or(host);
                format!("https://{plain}")
            }));
    }

    /// What is named already wins.
    fn add_proxies(&mut self, variables: &Variables) {
        let first = |names: &[&str]| {
            let value = names.iter().find_map(|name| variables.get(name))?;
            Some(value.to_string_lossy().into_owned())
        };
        let every = ["all_proxy", "ALL_PROXY"];
        let Proxies {
            http,
            https,
            without,
        } = &mut self.proxies;
        *http = http
            .take()
            .or_else(|| first(&["http_proxy", "HTTP_PROXY"]))
            .or_else(|| first(&every));
        *https = https
            .take()
            .or_else(|| first(&["https_proxy", "HTTPS_PROXY"]))
            .or_else(|| first(&every));
        *without = first(&["no_proxy", "NO_PROXY"]).unwrap_or_default();
    }

    /// Each host that may be reached, with its port where the address names one.
    pub(crate) fn hosts(&self) -> Vec<String> {
        if self.no_index {
            return Vec::new();
        }
        let index = self.default_index.as_deref().map(unnamed);
        let named = index.into_iter().filter_map(host);
        let mut hosts: Vec<String> = named
            .chain(self.addresses.iter().filter_map(|address| host(address)))
            .collect();
        if index.is_none() || hosts.iter().any(|host| host == PYPI[0]) {
            hosts.extend(PYPI.map(str::to_owned));
        }
        hosts.sort();
        hosts.dedup();
        hosts
    }

    /// What must be readable and is there. A place that may not be shown is an error: left out, its packages would come from elsewhere.
    pub(crate) fn shown(&self) -> Result<Vec<PathBuf>, Error> {
        let index = self.default_index.as_deref().map(unnamed).and_then(local);
        let all = self.files.iter().cloned().chain(index);
        let mut shown: Vec<PathBuf> = all
            .filter(|path| path.is_absolute() && path.exists())
            .collect();
        shown.sort();
        shown.dedup();
        match shown.iter().find(|path| self.holds_home(path)) {
            Some(path) => Err(Error::HomeInPlace { path: path.clone() }),
            None => Ok(shown),
        }
    }

    /// Whoever names the root directory, his home or one above it does not mean to show everything: keys are there.
    fn holds_home(&self, path: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let place = real(path);
        let home = self.home.as_deref().map(real);
        place.parent().is_none() || home.is_some_and(|home| home.starts_with(&place))
    }
}

/// An index may have a name: `name=https://…`.
fn unnamed(address: &str) -> &str {
    match address.split_once('=') {
        Some((name, rest)) if !name.contains(['/', ':']) => rest,
        _ => address,
    }
}

fn local(address: &str) -> Option<PathBuf> {
    let path = address.strip_prefix("file://").unwrap_or(address);
    path.starts_with('/').then(|| PathBuf::from(path))
}

/// The host of an address, with its port if it names one. A name and password in it are left out.
fn host(address: &str) -> Option<String> {
    let rest = address
        .strip_prefix("https://")
        .or(address.strip_prefix("http://"))?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    (!host.is_empty()).then(|| host.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_word_it_is_pypi() {
        let pypi = ["files.pythonhosted.org", "pypi.org"];
        assert_eq!(Places::default().hosts(), pypi);
        let named = Places {
            default_index: Some("https://pypi.org/simple".to_owned()),
            ..Places::default()
        };
        assert_eq!(named.hosts(), pypi);
    }

    #[test]
    fn settings_name_hosts_and_directories() {
        let mut places = Places {
            default_index: Some("https://me:secret@Index.example:8443/simple".to_owned()),
            ..Places::default()
        };
        places.add("own=https://two.example/x, /usr\nfile:///usr/lib");
        places.add_common(&Variables::default().with(MORE_HOSTS, "files.example:444"));
        assert_eq!(
            places.hosts(),
            ["files.example:444", "index.example:8443", "two.example"]
        );
        let paths = ["/usr", "/usr/lib"].map(PathBuf::from);
        assert_eq!(places.shown().unwrap(), paths);
    }

    #[test]
    fn a_home_and_what_is_above_it_are_never_shown() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        let wheels = home.join("wheels");
        std::fs::create_dir_all(&wheels).unwrap();
        let shown = |path: &Path| {
            let mut places = Places::default();
            places.add(&wheels.display().to_string());
            places.add(&path.display().to_string());
            places.add_common(&Variables::default().with("HOME", &home));
            places.shown()
        };
        for path in [Path::new("/"), directory.path(), &home] {
            let error = shown(path).unwrap_err().to_string();
            let expected = format!("packages names {}, ", path.display());
            assert!(error.contains(&expected), "{error}");
        }
        assert_eq!(shown(&wheels).unwrap(), std::slice::from_ref(&wheels));
    }

    #[test]
    fn without_an_index_nobody_is_reached() {
        let mut places = Places {
            no_index: true,
            ..Places::default()
        };
        places.add("https://links.example/");
        assert_eq!(places.hosts(), [""; 0]);
    }
}

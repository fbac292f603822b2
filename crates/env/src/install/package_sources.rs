//! Where packages come from, as the user's settings name it: the hosts of indexes, directories with
//! packages, certificates, proxies, and the passwords for those hosts.

use std::{
    fs,
    path::{Path, PathBuf},
};

use toml::{Table, Value};

use crate::{Error, ProxySettings, Variables};

/// The hosts of the index that installers use where the settings name none: the index itself, and the
/// host that keeps its files.
const DEFAULT_INDEX_HOSTS: [&str; 2] = ["pypi.org", "files.pythonhosted.org"];
/// The variable in which the user names further hosts, for an index that keeps its files on another host.
pub(crate) const EXTRA_HOSTS_VARIABLE: &str = "CELLBLOCK_INDEX_HOSTS";
/// Variables that hold the path of certificates or of a client's key.
const CERTIFICATE_VARIABLES: [&str; 5] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "SSL_CLIENT_CERT",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
];
/// The name of the file with passwords in a home directory.
pub(crate) const NETRC_FILE: &str = ".netrc";
/// Where uv finds a configuration file, below a directory with configurations.
pub(crate) const UV_SETTINGS_FILE: &str = "uv/uv.toml";

/// Everything that an installer must reach and read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PackageSources {
    /// Whether no index may be used: packages come from directories alone.
    pub(crate) no_index: bool,
    /// The index that replaces the default one.
    pub(crate) default_index: Option<String>,
    /// The addresses of further indexes and of pages with links.
    pub(crate) addresses: Vec<String>,
    /// Directories with packages, files with certificates.
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) proxies: ProxySettings,
    /// The user's home directory, which no installer may see.
    pub(crate) home: Option<PathBuf>,
}

impl PackageSources {
    /// Adds the value of a setting: one or several addresses (also `name=https://…`) and paths.
    pub(crate) fn add(&mut self, setting: &str) {
        for word in setting.split(|c: char| c.is_whitespace() || c == ',') {
            let address = without_index_name(word);
            if address.contains("://") && !address.starts_with("file://") {
                self.addresses.push(address.to_owned());
            } else {
                self.paths.extend(local_path(address));
            }
        }
    }

    /// Adds the variables that every installer reads: certificates, proxies, the home, further hosts.
    pub(crate) fn add_variables(&mut self, variables: &Variables) {
        let certificates = CERTIFICATE_VARIABLES
            .iter()
            .filter_map(|name| variables.absolute_path(name));
        self.paths.extend(certificates);
        self.home = variables.absolute_path("HOME");
        self.add_proxies(variables);
        let extra = variables.get(EXTRA_HOSTS_VARIABLE).unwrap_or_default();
        let extra = extra.to_string_lossy();
        let hosts = extra.split(|c: char| c.is_whitespace() || c == ',');
        self.addresses
            .extend(hosts.filter(|host| !host.is_empty()).map(|host| {
                let host = host.rsplit("://").next().unwrap_or(host);
                format!("https://{host}")
            }));
    }

    /// Adds the proxies of the variables. A proxy that is set already stays.
    fn add_proxies(&mut self, variables: &Variables) {
        let first_set = |names: &[&str]| {
            let value = names.iter().find_map(|name| variables.get(name))?;
            Some(value.to_string_lossy().into_owned())
        };
        let every = ["all_proxy", "ALL_PROXY"];
        let ProxySettings {
            http,
            https,
            bypass,
        } = &mut self.proxies;
        *http = http
            .take()
            .or_else(|| first_set(&["http_proxy", "HTTP_PROXY"]))
            .or_else(|| first_set(&every));
        *https = https
            .take()
            .or_else(|| first_set(&["https_proxy", "HTTPS_PROXY"]))
            .or_else(|| first_set(&every));
        *bypass = first_set(&["no_proxy", "NO_PROXY"]).unwrap_or_default();
    }

    /// Each host that may be reached, with its port where the address names one.
    pub(crate) fn hosts(&self) -> Vec<String> {
        if self.no_index {
            return Vec::new();
        }
        let index = self.default_index.as_deref().map(without_index_name);
        let index_host = index.into_iter().filter_map(host_of);
        let mut hosts: Vec<String> = index_host
            .chain(self.addresses.iter().filter_map(|address| host_of(address)))
            .collect();
        if index.is_none() || hosts.iter().any(|host| host == DEFAULT_INDEX_HOSTS[0]) {
            hosts.extend(DEFAULT_INDEX_HOSTS.map(str::to_owned));
        }
        hosts.sort();
        hosts.dedup();
        hosts
    }

    /// The paths that must be readable and exist. A path that may not be shown is an error: if it were left
    /// out, its packages would come from elsewhere.
    pub(crate) fn readable_paths(&self) -> Result<Vec<PathBuf>, Error> {
        let index = self.default_index.as_deref();
        let index = index.map(without_index_name).and_then(local_path);
        let all = self.paths.iter().cloned().chain(index);
        let mut paths: Vec<PathBuf> = all
            .filter(|path| path.is_absolute() && path.exists())
            .collect();
        paths.sort();
        paths.dedup();
        match paths.iter().find(|path| self.contains_home(path)) {
            Some(path) => Err(Error::HomeExposed { path: path.clone() }),
            None => Ok(paths),
        }
    }

    /// Whether a path is the root directory, the home or a directory above the home. Keys are there.
    fn contains_home(&self, path: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let path = real(path);
        let home = self.home.as_deref().map(real);
        path.parent().is_none() || home.is_some_and(|home| home.starts_with(&path))
    }
}

/// The address without the name of the index: `name=https://…`.
fn without_index_name(address: &str) -> &str {
    match address.split_once('=') {
        Some((name, rest)) if !name.contains(['/', ':']) => rest,
        _ => address,
    }
}

fn local_path(address: &str) -> Option<PathBuf> {
    let path = address.strip_prefix("file://").unwrap_or(address);
    path.starts_with('/').then(|| PathBuf::from(path))
}

/// The host of an address, with its port if it names one, without user name and password.
fn host_of(address: &str) -> Option<String> {
    let rest = address
        .strip_prefix("https://")
        .or(address.strip_prefix("http://"))?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    (!host.is_empty()).then(|| host.to_lowercase())
}

/// The configuration files of uv: the system's and the user's, or the one that `UV_CONFIG_FILE` names. In a
/// sandbox uv does not see them, so they are read for it.
#[derive(Debug, Default)]
pub(crate) struct UvSettings(Vec<Table>);

impl UvSettings {
    /// Whether uv has a configuration file.
    pub(crate) fn exist(variables: &Variables) -> bool {
        uv_settings_files(variables)
            .iter()
            .any(|path| path.exists())
    }

    /// Reads the files. A file that cannot be read or parsed counts as empty.
    pub(crate) fn read(variables: &Variables) -> Self {
        let texts = uv_settings_files(variables)
            .into_iter()
            .filter_map(|path| fs::read_to_string(path).ok());
        Self(texts.filter_map(|text| text.parse().ok()).collect())
    }

    /// The text of the user's own file, which overrides the system's.
    pub(crate) fn users_text(variables: &Variables) -> Option<String> {
        fs::read_to_string(uv_settings_files(variables).last()?).ok()
    }

    /// Adds the indexes, links and directories that the files name.
    pub(crate) fn add_to<'a>(&'a self, sources: &mut PackageSources) {
        let pip_table = |table: &'a Table| table.get("pip").and_then(Value::as_table);
        let tables = self.0.iter();
        for table in tables
            .flat_map(|table| [Some(table), pip_table(table)])
            .flatten()
        {
            sources.no_index |= table.get("no-index").and_then(Value::as_bool) == Some(true);
            if let Some(index) = table.get("index-url").and_then(Value::as_str) {
                sources.default_index = Some(index.to_owned());
            }
            for name in ["extra-index-url", "find-links"] {
                for text in strings(table.get(name)) {
                    sources.add(text);
                }
            }
            let indexes = table.get("index").and_then(Value::as_array);
            for index in indexes.into_iter().flatten() {
                let Some(url) = index.get("url").and_then(Value::as_str) else {
                    continue;
                };
                if index.get("default").and_then(Value::as_bool) == Some(true) {
                    sources.default_index = Some(url.to_owned());
                }
                sources.add(url);
            }
        }
    }
}

/// uv's configuration file of the whole system.
pub(crate) fn system_uv_settings() -> PathBuf {
    Path::new("/etc").join(UV_SETTINGS_FILE)
}

/// The files that uv reads; a later one overrides an earlier one.
fn uv_settings_files(variables: &Variables) -> Vec<PathBuf> {
    if let Some(file) = variables.absolute_path("UV_CONFIG_FILE") {
        return vec![file];
    }
    let configurations = variables
        .absolute_path("XDG_CONFIG_HOME")
        .or_else(|| Some(variables.absolute_path("HOME")?.join(".config")));
    let users = configurations.map(|directory| directory.join(UV_SETTINGS_FILE));
    [Some(system_uv_settings()), users]
        .into_iter()
        .flatten()
        .collect()
}

/// The strings of a TOML value that is one string or a list of them.
fn strings(value: Option<&Value>) -> Vec<&str> {
    let list = value.and_then(Value::as_array).into_iter().flatten();
    list.chain(value).filter_map(Value::as_str).collect()
}

/// The entries of the user's `.netrc` for these hosts, each perhaps with a port; `None` if there are none.
/// An installer gets no entry for another host.
pub(crate) fn netrc_for(variables: &Variables, hosts: &[String]) -> Option<String> {
    let path = variables.absolute_path("NETRC").or_else(|| {
        let home: PathBuf = variables.absolute_path("HOME")?;
        Some(home.join(NETRC_FILE))
    })?;
    let text = netrc_entries(&fs::read_to_string(path).ok()?, hosts);
    (!text.is_empty()).then_some(text)
}

fn netrc_entries(text: &str, hosts: &[String]) -> String {
    let is_wanted = |machine: &str| {
        hosts.iter().any(|host| {
            let name = host
                .rsplit_once(':')
                .map_or(host.as_str(), |(name, _)| name);
            name.eq_ignore_ascii_case(machine)
        })
    };
    let mut kept = String::new();
    let mut is_kept = false;
    let mut words = netrc_words(text).into_iter();
    while let Some(word) = words.next() {
        match word {
            "machine" => {
                let machine = words.next().unwrap_or_default();
                is_kept = is_wanted(machine);
                if is_kept {
                    kept.push_str(&format!("machine {machine}\n"));
                }
            }
            "default" => is_kept = false,
            "login" | "account" | "password" => {
                let value = words.next().unwrap_or_default();
                if is_kept {
                    kept.push_str(&format!("{word} {value}\n"));
                }
            }
            _ => {}
        }
    }
    kept
}

/// The words of a `.netrc` without comments and macros. A macro goes on to the next empty line.
fn netrc_words(text: &str) -> Vec<&str> {
    let mut in_macro = false;
    let mut words = Vec::new();
    for line in text.lines().map(str::trim) {
        in_macro &= !line.is_empty();
        if in_macro || line.starts_with('#') {
            continue;
        }
        in_macro = line.split_whitespace().any(|word| word == "macdef");
        let before_macro = line.split_whitespace();
        words.extend(before_macro.take_while(|word| *word != "macdef"));
    }
    words
}

#[cfg(test)]
#[path = "package_sources_tests.rs"]
mod tests;

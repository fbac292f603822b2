//! The view: the part of the host that a session sees. Enough to run Python, read-only, and nothing of the user's.

use crate::Error;
use cellblock_protocol::WorkspacePlace;
use std::path::{Path, PathBuf};

/// The directory of the guest's own modules in a session with a view of its own.
pub const GUEST_DIRECTORY: &str = "/run/cellblock/guest";

/// System directories that are links on some distributions and directories on others.
const SYSTEM: [&str; 7] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
];

/// Single files and directories of `/etc` that libraries read: no names, no keys, no accounts.
const SETTINGS: [&str; 8] = [
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/ssl/certs",
    "/etc/pki/tls/certs",
];

const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// The accounts that a session sees. Files of the system belong to root; no process of the session can be root.
fn passwd(workspace: &WorkspacePlace) -> String {
    let name = workspace.user_name();
    format!(
        "root:x:0:0:root:/:/bin/false
{name}:x:1000:1000:Session:{workspace}:/bin/sh
nobody:x:65534:65534:nobody:/:/bin/false
"
    )
}

fn group(workspace: &WorkspacePlace) -> String {
    let name = workspace.user_name();
    format!("root:x:0:\n{name}:x:1000:\nnogroup:x:65534:\n")
}

/// Where libc looks names up: those of hosts in these sources.
fn name_sources(hosts: &str) -> String {
    format!("passwd: files\ngroup: files\nhosts: {hosts}\nservices: files\nprotocols: files\n")
}

/// The ports that programs ask for by name. Our own list, so that a session does not depend on what the host has installed.
const SERVICES: &str = "echo 7/tcp
echo 7/udp
daytime 13/tcp
daytime 13/udp
qotd 17/tcp
ftp-data 20/tcp
ftp 21/tcp
ssh 22/tcp
telnet 23/tcp
smtp 25/tcp mail
time 37/tcp
domain 53/tcp
domain 53/udp
tftp 69/udp
http 80/tcp www
pop3 110/tcp
ntp 123/udp
imap2 143/tcp imap
snmp 161/udp
ldap 389/tcp
https 443/tcp
https 443/udp
submissions 465/tcp
syslog 514/udp
submission 587/tcp
ldaps 636/tcp
ftps 990/tcp
imaps 993/tcp
pop3s 995/tcp
mysql 3306/tcp
postgresql 5432/tcp
redis 6379/tcp
";
const PROTOCOLS: &str =
    "ip 0 IP\nicmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\nipv6 41 IPv6\nipv6-icmp 58 IPv6-ICMP\n";

/// One thing in the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ViewEntry {
    Show { host: PathBuf, at: PathBuf },
    Device { host: PathBuf, at: PathBuf },
    Link { target: PathBuf, at: PathBuf },
    Directory(PathBuf),
    File { text: String, at: PathBuf },
}

/// The view of one Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    entries: Vec<ViewEntry>,
}

impl View {
    /// Shows a device in the place of `/dev/zero` that gives zeros too, but cannot be mapped. Shared memory that is mapped from `/dev/zero` has pages that
    /// no process shows, and init is not asked about it: for sessions whose memory init counts.
    pub fn with_zeros_that_cannot_be_mapped(mut self) -> View {
        for entry in &mut self.entries {
            if let ViewEntry::Device { host, at } = entry
                && at == Path::new("/dev/zero")
            {
                *host = "/dev/full".into();
            }
        }
        self
    }

    /// Lets names be found as on the host: for sessions that share its network, in which names of our own would lead nowhere.
    pub fn with_names_of_host(mut self) -> View {
        for entry in &mut self.entries {
            let ViewEntry::File { text, at } = entry else {
                continue;
            };
            if at == Path::new("/etc/nsswitch.conf") {
                *text = name_sources("files dns");
            } else if at == Path::new("/etc/hosts") && at.exists() {
                *entry = ViewEntry::Show {
                    host: at.clone(),
                    at: at.clone(),
                };
            }
        }
        let resolver = PathBuf::from("/etc/resolv.conf");
        if resolver.exists() {
            self.entries.push(ViewEntry::Show {
                host: resolver.clone(),
                at: resolver,
            });
        }
        self
    }

    /// A view that holds the system, the directories of a Python, the guest's modules, and a directory for the workspace.
    ///
    /// # Errors
    ///
    /// The workspace cannot be where the Python has a directory: one would cover the other.
    pub fn new(
        prefixes: &[PathBuf],
        guest: &Path,
        workspace: &WorkspacePlace,
    ) -> Result<View, Error> {
        let place = workspace.as_path();
        let taken = |path: &&PathBuf| path.starts_with(place) || place.starts_with(path);
        if let Some(shown) = prefixes.iter().find(taken) {
            return Err(Error::PlaceTaken {
                place: place.to_owned(),
                shown: shown.clone(),
            });
        }
        let mut entries = Vec::new();
        for path in SYSTEM.map(PathBuf::from) {
            match std::fs::read_link(&path) {
                Ok(target) => entries.push(ViewEntry::Link { target, at: path }),
                Err(_) if path.is_dir() => entries.push(ViewEntry::Show {
                    host: path.clone(),
                    at: path,
                }),
                Err(_) => {}
            }
        }
        for prefix in prefixes {
            if !covered(&entries, prefix) {
                entries.push(ViewEntry::Show {
                    host: prefix.clone(),
                    at: prefix.clone(),
                });
            }
        }
        entries.push(ViewEntry::Show {
            host: guest.to_owned(),
            at: GUEST_DIRECTORY.into(),
        });
        for path in SETTINGS
            .map(PathBuf::from)
            .into_iter()
            .filter(|path| path.exists())
        {
            entries.push(ViewEntry::Show {
                host: path.clone(),
                at: path,
            });
        }
        entries.extend(
            DEVICES
                .map(PathBuf::from)
                .into_iter()
                .filter(|path| path.exists())
                .map(|path| ViewEntry::Device {
                    host: path.clone(),
                    at: path,
                }),
        );
        for (target, at) in [
            ("/proc/self/fd", "/dev/fd"),
            ("/proc/self/fd/0", "/dev/stdin"),
            ("/proc/self/fd/1", "/dev/stdout"),
            ("/proc/self/fd/2", "/dev/stderr"),
            // Each session mounts terminals of its own there.
            ("pts/ptmx", "/dev/ptmx"),
            ("/tmp", "/var/tmp"),
        ] {
            entries.push(ViewEntry::Link {
                target: target.into(),
                at: at.into(),
            });
        }
        entries.push(ViewEntry::Directory(place.to_owned()));
        entries.push(ViewEntry::Directory("/dev/pts".into()));
        for (text, at) in [
            (passwd(workspace), "/etc/passwd"),
            (group(workspace), "/etc/group"),
            (
                "127.0.0.1 localhost\n::1 localhost\n".to_owned(),
                "/etc/hosts",
            ),
            (SERVICES.to_owned(), "/etc/services"),
            (PROTOCOLS.to_owned(), "/etc/protocols"),
            (name_sources("files"), "/etc/nsswitch.conf"),
        ] {
            entries.push(ViewEntry::File {
                text,
                at: at.into(),
            });
        }
        Ok(View { entries })
    }

    pub(crate) fn entries(&self) -> &[ViewEntry] {
        &self.entries
    }

    /// The paths below a directory that each session covers with its own: they must be shown again inside.
    pub(crate) fn covered_in_sessions(&self) -> impl Iterator<Item = &Path> {
        self.entries.iter().filter_map(|entry| match entry {
            ViewEntry::Show { at, .. } if at.starts_with("/tmp") || at.starts_with("/dev/shm") => {
                Some(at.as_path())
            }
            _ => None,
        })
    }
}

fn covered(entries: &[ViewEntry], path: &Path) -> bool {
    entries
        .iter()
        .any(|entry| matches!(entry, ViewEntry::Show { at, .. } if path.starts_with(at)))
}

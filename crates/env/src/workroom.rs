//! Where an installer works: a directory of its own, behind walls where there are any. It reaches the hosts of the package index, sees
//! what it needs to run, and writes only there; what came of its work is taken out when the room is closed.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Error, InstallFailure, Progress, Step,
    child::Tail,
    dirs,
    downloads::{self, Downloads},
    install::{Job, LONGEST, MADE, Report},
    netrc,
    places::Places,
    take_over, uv_configuration,
    walls::{NoRoom, OpenRoom, Order, Room, Strength},
};

/// What an installer takes with it.
#[derive(Debug, Default)]
pub(crate) struct Kit {
    /// What it is made of, and must be able to read.
    pub(crate) shown: Vec<PathBuf>,
    /// Where packages come from.
    pub(crate) places: Places,
    /// Variables that it needs only where it does not see the user's files.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// Files that lie there for it, by path below the room's directory.
    pub(crate) files: Vec<(PathBuf, String)>,
}

/// A directory to work in.
pub(crate) struct Workroom<'a> {
    job: &'a Job<'a>,
    directory: PathBuf,
    walls: Option<Walled>,
    /// Given back after the walls are gone, and with them whoever worked behind them.
    _downloads: Option<Downloads>,
}

struct Walled {
    room: Box<dyn OpenRoom>,
    variables: Vec<(OsString, OsString)>,
}

impl<'a> Workroom<'a> {
    /// Opens one in a directory that it makes. Where the walls are not to be had, that is reported.
    pub(crate) fn open(
        job: &'a Job<'a>,
        directory: &Path,
        kit: Kit,
        report: &mut Report<'_>,
    ) -> Result<Self, Error> {
        dirs::create(directory)?;
        // There may be passwords of indexes in it.
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
            .map_err(|source| Error::io("close to others", directory, source))?;
        for (name, text) in &kit.files {
            let path = directory.join(name);
            path.parent().map_or(Ok(()), dirs::create)?;
            dirs::write(&path, text).map_err(|source| Error::io("write", &path, source))?;
        }
        let mut workroom = Self {
            job,
            directory: directory.to_owned(),
            walls: None,
            _downloads: None,
        };
        let Some(walls) = job.walls else {
            return Ok(workroom);
        };
        dirs::create(&directory.join(TEMPORARY))?;
        let downloads = Downloads::lend(job.tools, directory);
        let hosts = kit.places.hosts();
        if let Some(text) = netrc::for_hosts(job.variables, &hosts) {
            let path = directory.join(netrc::NAME);
            dirs::write(&path, text).map_err(|source| Error::io("write", &path, source))?;
        }
        let mut shown = kit.places.shown()?;
        shown.extend(kit.shown);
        let room = Room {
            interpreter: job.interpreter.clone(),
            shown,
            hosts,
            proxies: kit.places.proxies,
            directory: directory.to_owned(),
            strength: Strength::Full,
            limit: LONGEST,
        };
        match walls.open(&room) {
            Ok(room) => {
                let variables = surroundings(room.directory(), kit.variables);
                workroom.walls = Some(Walled { room, variables });
                workroom._downloads = Some(downloads);
            }
            Err(NoRoom::NoWalls(why)) => {
                let message = format!("the installer runs outside of walls: {why}");
                report(Progress::new(Step::Unwalled, 0, None, message));
            }
            Err(NoRoom::Failed(why)) => return Err(Error::NoRoom { why }),
        }
        Ok(workroom)
    }

    /// Whether nothing outside of it can be seen, reached or written from here.
    pub(crate) fn is_walled(&self) -> bool {
        self.walls.is_some()
    }

    /// Where it is.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// What those who work there call it.
    pub(crate) fn called(&self) -> &Path {
        match &self.walls {
            Some(walls) => walls.room.directory(),
            None => &self.directory,
        }
    }

    pub(crate) fn job(&self) -> &'a Job<'a> {
        self.job
    }

    /// Runs a program there; a failure becomes an error with its last lines. Relative paths are below the room's directory.
    pub(crate) fn run(
        &mut self,
        tool: &str,
        what: &'static str,
        mut command: Command,
        line: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let Some(walls) = &mut self.walls else {
            command.current_dir(&self.directory);
            return self.job.run(tool, what, command, line).map(drop);
        };
        let mut tail = Tail::default();
        let ran = walls
            .room
            .run(&walls.order(&command), self.job.cancel, &mut |text| {
                line(text);
                tail.push(text);
            });
        if self.job.cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        ran.map_err(|failed| {
            let interpreter = self.job.interpreter;
            let mut lines = tail.into_lines();
            lines.extend(failed.unreached.iter().map(|one| one.why.clone()));
            Error::Install(Box::new(InstallFailure {
                tool: tool.to_owned(),
                what,
                python: interpreter.executable.clone(),
                version: interpreter.version,
                status: failed.status,
                lines,
                unreached: failed.unreached,
            }))
        })
    }

    /// Closes it, and moves what was made in it to another place. Returns the path that it had for those who made it.
    pub(crate) fn take_out(self, place: &Path) -> Result<PathBuf, Error> {
        let (made, seen) = (self.directory.join(MADE), self.called().join(MADE));
        let (job, is_walled) = (self.job, self.is_walled());
        drop(self);
        if is_walled {
            take_over::look_through(&made, job.interpreter)?;
        }
        fs::rename(&made, place).map_err(|source| Error::io("take over", &made, source))?;
        Ok(seen)
    }

    /// Reads what a program left there.
    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let path = self.directory.join(name);
        let read = match &self.walls {
            Some(walls) => walls.room.read(name).map_err(std::io::Error::other),
            None => fs::read(&path),
        };
        read.map_err(|source| Error::io("read", &path, source))
    }
}

impl Walled {
    fn order(&self, command: &Command) -> Order {
        let mut variables: Vec<(OsString, OsString)> = command
            .get_envs()
            .filter(|(name, _)| goes_along(name))
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect();
        for (name, value) in &self.variables {
            variables.retain(|(other, _)| other != name);
            variables.push((name.clone(), value.clone()));
        }
        Order {
            command: [command.get_program()]
                .into_iter()
                .chain(command.get_args())
                .map(OsStr::to_owned)
                .collect(),
            variables,
        }
    }
}

/// What programs take for temporary files: a place on disk, for memory is scarce.
const TEMPORARY: &str = "tmp";
/// Where uv looks for what it is told, in a room.
pub(crate) const CONFIGURATION: &str = "config";

/// The variables of a room: everything is in its directory, and nobody looks elsewhere.
fn surroundings(room: &Path, own: Vec<(OsString, OsString)>) -> Vec<(OsString, OsString)> {
    let downloads = room.join(downloads::NAME);
    let mut all: Vec<(OsString, OsString)> = [
        ("HOME", room.to_owned()),
        ("TMPDIR", room.join(TEMPORARY)),
        ("XDG_CONFIG_HOME", room.join(CONFIGURATION)),
        ("UV_CACHE_DIR", downloads.join("uv")),
        ("PIP_CACHE_DIR", downloads.join("pip")),
        ("PIP_CONFIG_FILE", "/dev/null".into()),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .into();
    all.extend(own);
    all
}

/// Which of the user's variables an installer gets: what is said to uv, what is trusted, and how Python behaves. What pip is told
/// comes in another way, and all others are nobody's business.
fn goes_along(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let for_uv = name.starts_with("UV_") && !name.starts_with("UV_PUBLISH_");
    let names_a_place = name.ends_with("_DIR") && name != "SSL_CERT_DIR";
    (for_uv && !names_a_place && name != "UV_CONFIG_FILE")
        || name.starts_with("SSL_")
        || [
            "CURL_CA_BUNDLE",
            "NO_COLOR",
            "PIP_REQUIRE_VIRTUALENV",
            "PYTHONNOUSERSITE",
            "REQUESTS_CA_BUNDLE",
        ]
        .contains(&name)
}

/// The file with what the user says to uv, for the kit.
pub(crate) fn configuration(text: String) -> (PathBuf, String) {
    let path = Path::new(CONFIGURATION).join(uv_configuration::BELOW);
    (path, text)
}

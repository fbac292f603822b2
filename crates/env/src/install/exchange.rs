//! Environments of other machines: fetched instead of made, and offered once made.

use std::{
    fs::{DirBuilder, OpenOptions},
    io::{self, BufReader, BufWriter, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
    str::FromStr as _,
};

use pep440_rs::Version;

use crate::{
    Error, Package,
    install::{
        InstallContext, InstallProgress, InstallStep, OnProgress, build::EnvironmentBuild,
        inspect::inspect_tree, inspect::make_readable, relocate_scripts,
    },
    requirements::{name_at_start, normalize_name},
    store::{
        FileLock, Header, InUseLock, MadeEnvironment, Marker, PartialDirectory, StoredKind,
        installed_packages, python_of, unpack,
    },
};

/// Prints the version of the C library that packages are chosen for.
const LIBC_VERSION: &str = "import os; print(os.confstr('CS_GNU_LIBC_VERSION'))";

/// An archive that was fetched and not yet unpacked.
struct Fetched {
    header: Header,
    archive: BufReader<std::fs::File>,
}

impl EnvironmentBuild<'_> {
    /// Takes what another machine made of the same request. Returns the lock. `None`: there is nothing that can be used, and it is made
    /// here.
    pub(super) fn take_requested(
        &self,
        context: &InstallContext<'_>,
        scratch: &Path,
        on_progress: &mut OnProgress<'_>,
    ) -> Option<Vec<String>> {
        let name = self.request_name(context)?;
        let taken = self.fetch(&name, scratch, on_progress).and_then(|fetched| {
            let Some(fetched) = fetched else {
                return Ok(None);
            };
            let request = &fetched.header.request;
            let is_same = request.requirements == self.request.requirements
                && request.installed == self.request.installed;
            if !is_same {
                return Err(refused("it was made for another request"));
            }
            let lock = fetched.header.lock.clone();
            let target = self.directory().join(self.request.directory_name(&lock));
            let file_lock = FileLock::path_for(&target);
            let _file_lock = FileLock::acquire(&file_lock, context.cancel, &mut || {})
                .map_err(io::Error::other)?;
            PartialDirectory::remove_leftovers(&target);
            if !self.exists(&target, &lock) {
                self.unpack(context, fetched, &target)?;
            }
            Ok(Some(lock))
        });
        told(taken, on_progress)
    }

    /// Takes what another machine made of the same lock. The caller holds the lock of the target. `false`: it is made here.
    pub(super) fn take_locked(
        &self,
        context: &InstallContext<'_>,
        target: &Path,
        lock: &[String],
        scratch: &Path,
        on_progress: &mut OnProgress<'_>,
    ) -> bool {
        let Some(name) = self.lock_name(context, lock) else {
            return false;
        };
        let taken = self.fetch(&name, scratch, on_progress).and_then(|fetched| {
            let Some(fetched) = fetched else {
                return Ok(None);
            };
            if fetched.header.lock != lock {
                return Err(refused("it was made for another lock"));
            }
            self.unpack(context, fetched, target).map(Some)
        });
        told(taken, on_progress).is_some()
    }

    /// Offers what was made here.
    pub(super) fn offer(&self, context: &InstallContext<'_>, target: &Path, lock: &[String]) {
        let names = [self.request_name(context), self.lock_name(context, lock)];
        let names: Vec<String> = names.into_iter().flatten().collect();
        let (Some(archives), false) = (self.environments.archives.get(), names.is_empty()) else {
            return;
        };
        let Some(marker) = Marker::read(target) else {
            return;
        };
        let mut header = Header::new(self.kind, self.request, lock, target);
        header.installer = marker.installer;
        header.fonts = marker.fonts;
        archives.offer(MadeEnvironment {
            names,
            directory: target.to_owned(),
            header,
            _in_use: InUseLock::acquire(target),
        });
    }

    fn fetch(
        &self,
        name: &str,
        scratch: &Path,
        on_progress: &mut OnProgress<'_>,
    ) -> io::Result<Option<Fetched>> {
        let Some(archives) = self.environments.archives.get() else {
            return Ok(None);
        };
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(scratch)?;
        let path = scratch.join("archive");
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(true);
        let mut out = BufWriter::new(options.mode(0o600).open(&path)?);
        if !archives.fetch(name, &mut out)? {
            return Ok(None);
        }
        let message = "taking it from another machine";
        on_progress(InstallProgress::new(InstallStep::Prepare, 0, None, message));
        out.flush()?;
        let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        let mut archive = BufReader::new(file);
        let header = Header::read(&mut archive)?;
        let is_same = header
            .request
            .interpreter
            .is_same(&self.request.interpreter);
        if header.kind != self.kind || !is_same {
            return Err(refused("it is for another Python"));
        }
        Ok(Some(Fetched { header, archive }))
    }

    /// Unpacks an archive beside its place, checks all of it, and moves it there.
    fn unpack(
        &self,
        context: &InstallContext<'_>,
        fetched: Fetched,
        target: &Path,
    ) -> io::Result<()> {
        let Fetched {
            header,
            mut archive,
        } = fetched;
        let partial = PartialDirectory::beside(target);
        let prefix = partial.path();
        DirBuilder::new().mode(0o755).create(prefix)?;
        unpack(&mut archive, prefix)?;
        let failed = |error: Error| io::Error::other(error.to_string());
        inspect_tree(prefix, context.interpreter).map_err(failed)?;
        if self.kind == StoredKind::Environment {
            relocate_scripts(prefix, &header.origin, target).map_err(failed)?;
            if !python_of(prefix).exists() {
                return Err(refused("it has no Python"));
            }
        }
        let bytes = make_readable(prefix).map_err(failed)?;
        let packages = self.packages_in(context, prefix);
        let packages = installed_packages(&packages).map_err(failed)?;
        if !header.lock.iter().all(|line| is_installed(line, &packages)) {
            return Err(refused("its packages are not those of its lock"));
        }
        let mut marker = Marker::new(self.kind, self.request, &header.lock, packages, bytes);
        marker.installer = header.installer;
        // A list of fonts names paths of the other machine: unless they are the same, it is made again before it is used.
        if header.origin == target {
            marker.fonts = header.fonts;
        }
        marker.write(prefix).map_err(failed)?;
        partial.finish().map_err(failed)
    }

    /// The name of the archive that this request leads to.
    fn request_name(&self, context: &InstallContext<'_>) -> Option<String> {
        let file = self.request.file(Path::new(""));
        let request = file.file_stem()?.to_str()?;
        self.name(context, &format!("request-{request}"))
    }

    /// The name of the archive with this lock.
    fn lock_name(&self, context: &InstallContext<'_>, lock: &[String]) -> Option<String> {
        let lock = self.request.directory_name(lock);
        self.name(context, &format!("lock-{lock}"))
    }

    /// A name with what packages depend on and the lock does not say: the kind, and the version of the C library. The architecture, the
    /// version of Python and the kind of C library are in the name of the lock. `None` where no archives are kept.
    fn name(&self, context: &InstallContext<'_>, text: &str) -> Option<String> {
        self.environments.archives.get()?;
        let kind = match self.kind {
            StoredKind::Environment => "environment",
            StoredKind::Layer => "layer",
        };
        let mut command = context.command(&context.interpreter.executable);
        command.args(["-I", "-S", "-c", LIBC_VERSION]);
        let lines = context.run_version_command("python", command, &mut |_| {});
        // Other C libraries have no such name.
        let libc = lines.ok().and_then(|mut lines| lines.pop());
        let libc = libc.map(|line| line.trim().replace(' ', "-"));
        Some(format!("{kind}-{text}-{}", libc.unwrap_or_default()))
    }
}

/// Whether the package of a line of a lock is there, in the version that the line names.
fn is_installed(line: &str, packages: &[Package]) -> bool {
    let name = normalize_name(name_at_start(line));
    let mut found = packages.iter();
    let Some(package) = found.find(|package| normalize_name(&package.name) == name) else {
        return false;
    };
    // A line may name an address instead of a version.
    let version = line
        .split([' ', ';'])
        .next()
        .and_then(|text| text.split_once("=="));
    let Some((_, version)) = version else {
        return true;
    };
    match (
        Version::from_str(version),
        Version::from_str(&package.version),
    ) {
        (Ok(wanted), Ok(found)) => wanted == found,
        _ => version == package.version,
    }
}

/// Tells why an archive cannot be used: then the environment is made here, as without archives.
fn told<T>(taken: io::Result<Option<T>>, on_progress: &mut OnProgress<'_>) -> Option<T> {
    taken.unwrap_or_else(|error| {
        let message = format!("the archive of another machine cannot be used: {error}");
        on_progress(InstallProgress::new(InstallStep::Prepare, 0, None, message));
        None
    })
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

//! The making of one environment or layer: resolved, then built beside its place, and moved there as the last act.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::{
    Environments, Error, Sources,
    answer::Request,
    bytecode,
    environment::{self, Kind, Marker},
    fonts,
    install::{self, Job, Place, Question, Report, Tool},
    layer,
    lock::Lock,
    partial::Partial,
    requirement::{self, normal},
    sources, warm_up,
};

/// What is to be made, and where.
pub(crate) struct Build<'a> {
    environments: &'a Environments,
    request: &'a Request,
    kind: Kind,
}

impl<'a> Build<'a> {
    pub(crate) fn environment(environments: &'a Environments, request: &'a Request) -> Self {
        let kind = Kind::Environment;
        Self {
            environments,
            request,
            kind,
        }
    }

    pub(crate) fn layer(environments: &'a Environments, request: &'a Request) -> Self {
        let kind = Kind::Layer;
        Self {
            environments,
            request,
            kind,
        }
    }

    /// Makes it, unless the lock leads to one that is there, and remembers the answer.
    pub(crate) fn run(&self, job: &Job<'_>, report: &mut Report<'_>) -> Result<(), Error> {
        let notes = self.request.file(&self.environments.requests);
        Partial::sweep(&notes);
        let scratch = Partial::of(&notes);
        let (installer, tools) = (self.environments.installer, &self.environments.tools);
        let lock = install::with_tool(job, installer, tools, report, &mut |tool, report| {
            self.resolve_and_build(job, tool, scratch.path(), report)
        })?;
        self.request.remember(&self.environments.requests, &lock)
    }

    fn resolve_and_build(
        &self,
        job: &Job<'_>,
        tool: &Tool,
        scratch: &Path,
        report: &mut Report<'_>,
    ) -> Result<Vec<String>, Error> {
        let mut question = Question {
            packages: &self.request.requirements.packages,
            there: &self.request.there,
            scratch,
            shelf: None,
        };
        let shelf: PathBuf;
        let resolved = match tool.resolve(job, &question, report) {
            Err(Error::Install(failure)) if sources::may_help(&failure) => {
                let Sources::Built(builder) = &self.environments.sources else {
                    return Err(Error::Install(failure));
                };
                let tools = &self.environments.tools;
                shelf = sources::build(builder.as_ref(), job, tool, tools, &question, report)?;
                question.shelf = Some(&shelf);
                tool.resolve(job, &question, report)?
            }
            outcome => outcome?,
        };
        let there = &self.request.there;
        let is_there = |line: &String| {
            let name = normal(requirement::name(line));
            there.iter().any(|package| normal(&package.name) == name)
        };
        let lock: Vec<String> = resolved.into_iter().filter(|l| !is_there(l)).collect();
        if self.kind == Kind::Layer && lock.is_empty() {
            return Ok(lock);
        }
        let target = self.directory().join(self.request.directory_name(&lock));
        // Two requests may have one lock.
        let _lock = Lock::take(&Lock::of(&target), job.cancel, &mut || {})?;
        Partial::sweep(&target);
        if !self.is_there(&target, &lock) {
            self.build(job, tool, &target, &lock, question.shelf, report)?;
        }
        Ok(lock)
    }

    /// Makes everything beside the target, and moves it there as the last act.
    fn build(
        &self,
        job: &Job<'_>,
        tool: &Tool,
        target: &Path,
        lock: &[String],
        shelf: Option<&Path>,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        let partial = Partial::of(target);
        let prefix = partial.path();
        let packages = match self.kind {
            Kind::Environment => environment::site_packages(prefix, job.interpreter),
            Kind::Layer => prefix.join(layer::PACKAGES),
        };
        let place = match self.kind {
            Kind::Environment => Place::Environment(prefix),
            Kind::Layer => Place::Layer(&packages),
        };
        tool.install(job, place, lock, shelf, report)?;
        if self.kind == Kind::Environment {
            install::relocate(prefix, target)?;
        }
        bytecode::compile(job, &packages, prefix, target, report)?;
        let fonts = fonts::fingerprint(job.variables);
        if self.kind == Kind::Environment {
            let imports = &self.request.requirements.imports;
            warm_up::warm_up(job, prefix, imports, &self.environments.sources, report)?;
        }
        let bytes = make_readable(prefix)?;
        let (format, made) = environment::stamp();
        let marker = Marker {
            format,
            kind: self.kind,
            requirements: self.request.requirements.clone(),
            lock: lock.to_owned(),
            interpreter: job.interpreter.clone(),
            packages: environment::installed_packages(&packages)?,
            bytes,
            made,
            installer: tool.name(),
            fonts,
        };
        marker.write(prefix)?;
        partial.finish()
    }

    fn is_there(&self, target: &Path, lock: &[String]) -> bool {
        let fits =
            Marker::read(target).is_some_and(|marker| marker.fits(&self.request.interpreter, lock));
        fits && (self.kind == Kind::Layer || environment::python(target).exists())
    }

    fn directory(&self) -> &Path {
        match self.kind {
            Kind::Environment => &self.environments.directory,
            Kind::Layer => &self.environments.layers,
        }
    }
}

/// Lets every user read the tree and only the owner write, whatever the umask was, and returns its size. A session that root starts
/// runs as an unprivileged user; who may come near the tree is decided by the directories above it.
fn make_readable(path: &Path) -> Result<u64, Error> {
    let failed = |source| Error::io("make readable", path, source);
    let metadata = path.symlink_metadata().map_err(failed)?;
    if metadata.is_symlink() {
        return Ok(0);
    }
    let mode = metadata.permissions().mode();
    let readable = if metadata.is_dir() || mode & 0o100 != 0 {
        0o555
    } else {
        0o444
    };
    let wanted = (mode | readable) & !0o022;
    if wanted != mode {
        fs::set_permissions(path, fs::Permissions::from_mode(wanted)).map_err(failed)?;
    }
    let mut bytes = metadata.len();
    if metadata.is_dir() {
        for entry in fs::read_dir(path).map_err(failed)? {
            bytes += make_readable(&entry.map_err(failed)?.path())?;
        }
    }
    Ok(bytes)
}

//! The making of one environment or layer: resolved, then built beside its place, and moved there as the last act.

use std::{fs, path::Path};

use crate::{
    Environments, Error,
    answer::Request,
    bytecode, dirs,
    environment::{self, Kind, Marker, UNWALLED},
    fonts,
    install::{self, From, Job, MADE, Question, Report, SHELF, Tool},
    layer,
    lock::Lock,
    partial::Partial,
    requirement::{name_at_start, normalize_name},
    sources, take_over, warm_up,
    workroom::Workroom,
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
        let installer = self.environments.installer;
        let lock = install::with_tool(job, installer, report, &mut |tool, report| {
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
        let question = Question {
            packages: &self.request.requirements.packages,
            there: &self.request.there,
        };
        // Another installer may have been at work there before.
        dirs::remove(scratch)?;
        let mut kit = tool.kit(job);
        kit.files.extend(question.files());
        let mut room = Workroom::open(job, &scratch.join("room"), kit, report)?;
        let mut from = From::Index;
        let resolved = match tool.resolve(&mut room, &question, from, report) {
            Err(Error::Install(failure)) if sources::may_help(&failure) => {
                let Some(walls) = job.walls else {
                    return Err(Error::Install(failure));
                };
                let wheels = sources::build(walls, job, tool, &question, scratch, report)?;
                let shelf = room.directory().join(SHELF);
                fs::rename(&wheels, &shelf)
                    .map_err(|source| Error::io("move the wheels to", &shelf, source))?;
                from = From::Shelf;
                tool.resolve(&mut room, &question, from, report)?
            }
            outcome => outcome?,
        };
        let there = &self.request.there;
        let is_there = |line: &String| {
            let name = normalize_name(name_at_start(line));
            there
                .iter()
                .any(|package| normalize_name(&package.name) == name)
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
            self.build(room, tool, &target, &lock, from, report)?;
        }
        Ok(lock)
    }

    /// Makes everything in the room, takes it out to beside the target, and moves it there as the last act.
    fn build(
        &self,
        mut room: Workroom<'_>,
        tool: &Tool,
        target: &Path,
        lock: &[String],
        from: From,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        let job = room.job();
        let packages_of = |prefix: &Path| match self.kind {
            Kind::Environment => environment::site_packages(prefix, job.interpreter),
            Kind::Layer => layer::packages(prefix),
        };
        tool.install(&mut room, self.kind, lock, from, report)?;
        bytecode::compile(&mut room, &packages_of(Path::new(MADE)), target, report)?;
        let installer = match room.is_walled() {
            true => tool.name(),
            false if job.walls.is_some() => format!("{}, {UNWALLED}", tool.name()),
            false => tool.name(),
        };
        let partial = Partial::of(target);
        let prefix = partial.path();
        let seen = room.take_out(prefix)?;
        if self.kind == Kind::Environment {
            install::relocate(prefix, &seen, target)?;
        }
        let fonts = fonts::fingerprint(job.variables);
        if self.kind == Kind::Environment {
            let imports = &self.request.requirements.imports;
            warm_up::warm_up(job, prefix, imports, report)?;
        }
        let bytes = take_over::make_readable(prefix)?;
        let (format, made) = environment::stamp();
        let marker = Marker {
            format,
            kind: self.kind,
            requirements: self.request.requirements.clone(),
            lock: lock.to_owned(),
            interpreter: job.interpreter.clone(),
            packages: environment::installed_packages(&packages_of(prefix))?,
            bytes,
            made,
            installer,
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

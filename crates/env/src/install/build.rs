//! The making of one environment or layer: resolved, then built beside its place, and moved there as the
//! last step.

use std::path::{Path, PathBuf};

use crate::{
    Environments, Error, FailureCause,
    find::font_fingerprint,
    install::{
        InstallContext, OnProgress,
        first_import::{compile_byte_code, import_modules},
        inspect::make_readable,
        relocate_scripts,
        staging::{OUTPUT_DIRECTORY, Staging},
        uv::{Built, ResolveRequest, Uv, WheelSource},
    },
    requirements::{name_at_start, normalize_name},
    store::{
        FileLock, InstallRequest, Marker, OUTSIDE_WALLS, PartialDirectory, StoredKind,
        installed_packages, layer_packages, python_of, site_packages,
    },
};

/// What is to be made, and where.
pub(crate) struct EnvironmentBuild<'a> {
    pub(super) environments: &'a Environments,
    pub(super) request: &'a InstallRequest,
    pub(super) kind: StoredKind,
}

impl<'a> EnvironmentBuild<'a> {
    pub(crate) fn new(
        environments: &'a Environments,
        request: &'a InstallRequest,
        kind: StoredKind,
    ) -> Self {
        Self {
            environments,
            request,
            kind,
        }
    }

    /// Resolves the request, makes what the lock names unless that exists, and saves the lock.
    pub(crate) fn run(
        &self,
        context: &InstallContext<'_>,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<(), Error> {
        let lock_file = self.request.file(&self.environments.requests);
        PartialDirectory::remove_leftovers(&lock_file);
        let scratch = PartialDirectory::beside(&lock_file);
        if let Some(lock) = self.take_requested(context, scratch.path(), on_progress) {
            return self.request.save_lock(&self.environments.requests, &lock);
        }
        let uv = Uv::find_or_download(context, on_progress)?;
        let lock = self.resolve_and_make(context, &uv, scratch.path(), on_progress)?;
        self.request.save_lock(&self.environments.requests, &lock)
    }

    fn resolve_and_make(
        &self,
        context: &InstallContext<'_>,
        uv: &Uv,
        scratch: &Path,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Vec<String>, Error> {
        let installed = &self.request.installed;
        let request = ResolveRequest {
            requirements: &self.request.requirements.packages,
            installed,
        };
        let inputs = uv.staging_inputs(context, &request);
        let directory = scratch.join("install");
        let mut staging = Staging::open(context, &directory, inputs, on_progress)?;
        let mut wheels = WheelSource::Index;
        let resolved = match uv.resolve(&mut staging, &request, wheels, on_progress) {
            // A package may have only a source. Builds need a sandbox.
            Err(Error::Install(mut failure))
                if failure.cause == FailureCause::NoSolution
                    && failure.unreached.is_empty()
                    && context.sandbox.is_some()
                    && context.target.is_none() =>
            {
                match uv.build_wheels(&staging, &request, scratch, on_progress)? {
                    Built::Wheels => {}
                    Built::NoSandbox(why) => {
                        let line = format!("nothing was built from source: {why}");
                        failure.lines.push(line);
                        return Err(Error::Install(failure));
                    }
                }
                wheels = WheelSource::IndexAndBuilt;
                uv.resolve(&mut staging, &request, wheels, on_progress)?
            }
            resolved => resolved?,
        };
        let is_installed = |line: &String| {
            let name = normalize_name(name_at_start(line));
            installed
                .iter()
                .any(|package| normalize_name(&package.name) == name)
        };
        let lock: Vec<String> = resolved
            .into_iter()
            .filter(|line| !is_installed(line))
            .collect();
        if self.kind == StoredKind::Layer && lock.is_empty() {
            return Ok(lock);
        }
        let target = self.directory().join(self.request.directory_name(&lock));
        // Two requests may have one lock.
        let file_lock = FileLock::path_for(&target);
        let _file_lock = FileLock::acquire(&file_lock, context.cancel, &mut || {})?;
        PartialDirectory::remove_leftovers(&target);
        if !self.exists(&target, &lock)
            && !self.take_locked(context, &target, &lock, scratch, on_progress)
        {
            self.make(staging, uv, &target, &lock, wheels, on_progress)?;
            self.offer(context, &target, &lock);
        }
        Ok(lock)
    }

    /// Makes everything in the staging directory, moves it beside the target, and from there to the target
    /// as the last step.
    fn make(
        &self,
        mut staging: Staging<'_>,
        uv: &Uv,
        target: &Path,
        lock: &[String],
        wheels: WheelSource,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<(), Error> {
        let context = staging.context();
        let packages_in = |prefix: &Path| self.packages_in(context, prefix);
        uv.install(&mut staging, self.kind, lock, wheels, on_progress)?;
        let packages = packages_in(Path::new(OUTPUT_DIRECTORY));
        if context.target.is_none() {
            compile_byte_code(&mut staging, &packages, target, on_progress)?;
        }
        let installer = if context.sandbox.is_some() && !staging.is_sandboxed() {
            format!("{}, {OUTSIDE_WALLS}", uv.name())
        } else {
            uv.name()
        };
        let partial = PartialDirectory::beside(target);
        let prefix = partial.path();
        let seen = staging.move_output(prefix)?;
        // Before the imports: a font that is installed meanwhile is seen the next time.
        let fonts = font_fingerprint(context.variables);
        if self.kind == StoredKind::Environment {
            relocate_scripts(prefix, &seen, target)?;
            let imports = &self.request.requirements.imports;
            import_modules(context, prefix, imports, on_progress)?;
        }
        let bytes = make_readable(prefix)?;
        let packages = installed_packages(&packages_in(prefix))?;
        let mut marker = Marker::new(self.kind, self.request, lock, packages, bytes);
        marker.installer = installer;
        marker.fonts = fonts;
        marker.write(prefix)?;
        partial.finish()
    }

    pub(super) fn packages_in(&self, context: &InstallContext<'_>, prefix: &Path) -> PathBuf {
        match self.kind {
            StoredKind::Environment => site_packages(prefix, context.interpreter),
            StoredKind::Layer => layer_packages(prefix),
        }
    }

    pub(super) fn exists(&self, target: &Path, lock: &[String]) -> bool {
        let marker = Marker::read(target);
        let is_right = marker.is_some_and(|marker| marker.is_for(&self.request.interpreter, lock));
        is_right && (self.kind == StoredKind::Layer || python_of(target).exists())
    }

    pub(super) fn directory(&self) -> &Path {
        match self.kind {
            StoredKind::Environment => &self.environments.directory,
            StoredKind::Layer => &self.environments.layers,
        }
    }
}

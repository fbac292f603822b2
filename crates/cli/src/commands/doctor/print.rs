//! The report for a person.

use super::report::{DoctorReport, NoPython, SessionCheck, stands};
use crate::terminal::{Console, Style, milliseconds, plural, size};
use cellblock::env::{CJK_FONT_HINT, Environment, EnvironmentStatus};
use cellblock::{Mechanism, Rung, Verdict, Wall};
use std::io;

/// Prints it, the most important first.
pub(crate) fn print(report: &DoctorReport, console: &Console) -> io::Result<()> {
    let page = DoctorPage { console };
    page.rung(report)?;
    page.heading("Walls")?;
    for wall in Wall::ALL {
        page.line(
            stands(wall, report.rung).into(),
            wall.name(),
            &format!("stops {}", wall.stops()),
        )?;
    }
    page.heading("Mechanisms")?;
    page.mechanisms(report)?;
    page.heading("Python")?;
    page.python(report)?;
    page.heading("Directories")?;
    match &report.dirs {
        Ok(dirs) => {
            page.line(Mark::Good, "cache", &dirs.cache.display().to_string())?;
            page.line(Mark::Good, "state", &dirs.state.display().to_string())?;
        }
        Err(error) => page.line(Mark::Bad, "none", error)?,
    }
    page.heading("A session")?;
    match &report.session {
        Ok(SessionCheck { first, pool, .. }) => {
            let text = format!("1+1 was answered after {}", milliseconds(*first));
            page.line(Mark::Good, "works", &text)?;
            let full = pool.state.ready == pool.state.size;
            let text = format!(
                "{} of {} sessions were ready; one answered 1+1 after {}",
                pool.state.ready,
                pool.state.size,
                milliseconds(pool.answer)
            );
            page.line(if full { Mark::Good } else { Mark::Fair }, "pool", &text)
        }
        Err(error) => page.line(Mark::Bad, "fails", error),
    }
}

pub(super) struct DoctorPage<'a> {
    pub(super) console: &'a Console,
}

/// Good, could be better, bad.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Good,
    Fair,
    Bad,
}

impl From<bool> for Mark {
    fn from(is_good: bool) -> Mark {
        if is_good { Mark::Good } else { Mark::Bad }
    }
}

impl DoctorPage<'_> {
    fn rung(&self, report: &DoctorReport) -> io::Result<()> {
        let (style, text) = match report.rung {
            Rung::Full => (Style::Good, "full: every wall stands"),
            Rung::Landlock => (
                Style::Warning,
                "landlock: no namespaces, but Landlock, seccomp and limits",
            ),
            Rung::None => (
                Style::Error,
                "none: sessions are refused, unless --isolation none asks for it",
            ),
        };
        let rung = self.console.on_out(Style::Heading, "Isolation");
        self.console
            .print_line(&format!("{rung}  {}", self.console.on_out(style, text)))?;
        match report.rung.caveat() {
            Some(caveat) => self.console.print_line(&format!("           {caveat}")),
            None => Ok(()),
        }
    }

    fn mechanisms(&self, report: &DoctorReport) -> io::Result<()> {
        let probe = match &report.probe {
            Ok(probe) => probe,
            Err(error) => return self.line(Mark::Bad, "probe", error),
        };
        for mechanism in Mechanism::ALL {
            let name = format!("{:<39}", mechanism.name());
            let verdict = probe.verdicts().find(|(one, _)| *one == mechanism);
            let problem = match verdict.map(|(_, verdict)| verdict) {
                Some(Verdict::Works { version: 0 }) => {
                    self.line(Mark::Good, mechanism.name(), "")?;
                    continue;
                }
                Some(Verdict::Works { version }) => {
                    self.line(Mark::Good, &name, &format!("version {version}"))?;
                    continue;
                }
                Some(Verdict::Fails(error)) => error,
                None => "the probe did not get this far",
            };
            self.line(Mark::Bad, &name, problem)?;
            // The other namespaces come with the first.
            let is_first = mechanism == Mechanism::Users || probe.has(Mechanism::Users);
            if is_first || Mechanism::LANDLOCK.contains(&mechanism) {
                self.hint(mechanism.remedy())?;
            }
        }
        match report.cgroups {
            Some(version) => self.line(
                Mark::Good,
                &format!("{:<39}", "cgroups"),
                &format!("{version} holds memory and processes"),
            ),
            None => {
                let what =
                    "not writable by this user; rlimits and a watchdog hold memory and processes";
                self.line(Mark::Fair, &format!("{:<39}", "cgroups"), what)?;
                self.hint("run as root, or let systemd delegate a cgroup: `systemd-run --user --scope -p Delegate=yes cellblock …`")
            }
        }
    }

    fn python(&self, report: &DoctorReport) -> io::Result<()> {
        match &report.python {
            Ok(python) => {
                let path = python.executable.display();
                self.line(
                    Mark::Good,
                    "interpreter",
                    &format!("{} at {path}", python.version),
                )?;
            }
            Err(none) => self.no_python(none)?,
        }
        match report.ready_environment() {
            Some(environment) => self.environment(environment)?,
            None if matches!(report.environment, Some(EnvironmentStatus::Building)) => {
                self.line(
                    Mark::Fair,
                    "environment",
                    "is being made by another process",
                )?;
            }
            None => {
                self.line(
                    Mark::Fair,
                    "environment",
                    "not there: sessions have the standard library alone",
                )?;
                self.hint("`cellblock setup` makes it")?;
            }
        }
        match &report.uv {
            Some(uv) => self.line(
                Mark::Good,
                "uv",
                &format!("{} at {}", uv.version, uv.path.display()),
            )?,
            None => self.line(
                Mark::Fair,
                "uv",
                "not there; pip downloads it when it is needed",
            )?,
        }
        match &report.font {
            Some(font) => {
                let what = format!("{} in {}", font.family, font.path.display());
                self.line(Mark::Good, "CJK font", &what)
            }
            None => {
                self.line(
                    Mark::Fair,
                    "CJK font",
                    "none: plots show boxes for Chinese, Japanese and Korean text",
                )?;
                self.hint(CJK_FONT_HINT)
            }
        }
    }

    fn no_python(&self, none: &NoPython) -> io::Result<()> {
        let first = none.message.lines().next().unwrap_or_default();
        self.line(Mark::Bad, "interpreter", first)?;
        for rejected in &none.tried {
            self.console.print_line(&format!("      {rejected}"))?;
        }
        none.hint.as_ref().map_or(Ok(()), |hint| self.hint(hint))
    }

    fn environment(&self, environment: &Environment) -> io::Result<()> {
        let what = format!(
            "{}, {} at {} (by {})",
            plural(environment.packages.len() as u64, "package"),
            size(environment.bytes),
            environment.prefix.display(),
            environment.installer
        );
        self.line(Mark::Good, "environment", &what)?;
        let packages: Vec<String> = environment
            .packages
            .iter()
            .map(|package| format!("{} {}", package.name, package.version))
            .collect();
        for row in packages.chunks(5) {
            let row = self.console.on_out(Style::Dim, &row.join(", "));
            self.console.print_line(&format!("      {row}"))?;
        }
        Ok(())
    }

    pub(super) fn heading(&self, text: &str) -> io::Result<()> {
        self.console
            .print_line(&format!("\n{}", self.console.on_out(Style::Heading, text)))
    }

    pub(super) fn line(&self, mark: Mark, name: &str, what: &str) -> io::Result<()> {
        let (style, sign) = match mark {
            Mark::Good => (Style::Good, "ok"),
            Mark::Fair => (Style::Warning, "--"),
            Mark::Bad => (Style::Error, "no"),
        };
        let sign = self.console.on_out(style, sign);
        let line = format!("  {sign}  {name:<16} {what}");
        self.console.print_line(line.trim_end())
    }

    pub(super) fn hint(&self, text: &str) -> io::Result<()> {
        let label = self.console.on_out(Style::Hint, "hint:");
        self.console.print_line(&format!("      {label} {text}"))
    }
}

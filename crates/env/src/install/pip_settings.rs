//! pip's settings for package indexes on this machine, translated for uv.
//!
//! uv does not read pip's configuration. Where only pip is told of a mirror, a proxy or a certificate, uv
//! would ignore them and fail.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{
    Variables,
    install::{
        InstallContext,
        package_sources::{PackageSources, UvSettings},
        pip::Pip,
    },
};

/// pip's options by name (`index-url`), with the text that its configuration holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PipSettings(BTreeMap<String, String>);

/// The options that say where packages come from, and how they are fetched.
const SOURCE_OPTIONS: [&str; 12] = [
    "index-url",
    "extra-index-url",
    "find-links",
    "no-index",
    "trusted-host",
    "cert",
    "client-cert",
    "proxy",
    "timeout",
    "default-timeout",
    "retries",
    "pre",
];

impl PipSettings {
    /// The settings for uv: those that pip reports; without a pip, the variables `PIP_…`. Empty where uv has
    /// a configuration file of its own.
    pub(crate) fn read_for_uv(context: &InstallContext<'_>, pip: Option<&Pip>) -> Self {
        if UvSettings::exist(context.variables) {
            return Self::default();
        }
        match pip {
            Some(pip) => Self::read(context, pip),
            None => Self::from_variables(context.variables),
        }
    }

    /// The settings that pip itself has.
    pub(crate) fn read(context: &InstallContext<'_>, pip: &Pip) -> Self {
        pip.configuration(context).map_or_else(
            || Self::from_variables(context.variables),
            |text| Self::parse(&text),
        )
    }

    /// The settings in the variables `PIP_…`.
    pub(crate) fn from_variables(variables: &Variables) -> Self {
        let value = |name: &&str| {
            let value = variables.get(&variable_name(name))?.to_str()?.to_owned();
            Some(((*name).to_owned(), value))
        };
        Self(SOURCE_OPTIONS.iter().filter_map(value).collect())
    }

    /// The variables for uv. A variable that is set for uv already stays as it is.
    pub(crate) fn uv_variables(&self, mut variables: Variables) -> Variables {
        let mut set = |names: &[&str], value: Option<String>| {
            if let (Some(value), Some(first)) = (value, names.first())
                && names.iter().all(|name| variables.get(name).is_none())
            {
                variables = std::mem::take(&mut variables).with(first, value);
            }
        };
        set(
            &["UV_DEFAULT_INDEX", "UV_INDEX_URL"],
            self.text("index-url"),
        );
        set(
            &["UV_INDEX", "UV_EXTRA_INDEX_URL"],
            self.joined("extra-index-url", " ", |_| true),
        );
        set(
            &["UV_FIND_LINKS"],
            // uv fails on a directory that does not exist; pip goes on.
            self.joined("find-links", ",", |link| {
                link.contains("://") || Path::new(link).exists()
            }),
        );
        set(
            &["UV_INSECURE_HOST"],
            self.joined("trusted-host", " ", |_| true),
        );
        set(&["SSL_CERT_FILE"], self.text("cert"));
        set(&["SSL_CLIENT_CERT"], self.text("client-cert"));
        set(
            &["ALL_PROXY", "HTTPS_PROXY", "https_proxy", "all_proxy"],
            self.text("proxy"),
        );
        set(
            &["UV_HTTP_TIMEOUT", "UV_REQUEST_TIMEOUT", "HTTP_TIMEOUT"],
            self.whole_seconds("timeout")
                .or_else(|| self.whole_seconds("default-timeout")),
        );
        set(
            &["UV_HTTP_RETRIES"],
            self.text("retries")
                .filter(|text| text.parse::<u32>().is_ok()),
        );
        set(
            &["UV_PRERELEASE"],
            self.is_on("pre").then(|| "allow".to_owned()),
        );
        variables
    }

    /// The variables for a pip that sees none of the user's files: only where packages come from. A proxy is
    /// left out: a sandbox has one of its own.
    pub(crate) fn pip_variables(&self) -> Vec<(OsString, OsString)> {
        let variable = |name: &&str| {
            let value = self.text(name).filter(|_| *name != "proxy")?;
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            Some((variable_name(name).into(), value.into()))
        };
        SOURCE_OPTIONS.iter().filter_map(variable).collect()
    }

    /// Where packages come from: addresses and directories.
    pub(crate) fn package_sources(&self) -> PackageSources {
        let mut sources = PackageSources {
            no_index: self.no_index(),
            ..PackageSources::default()
        };
        sources.default_index = self.text("index-url");
        sources.proxies.http = self.text("proxy");
        sources.proxies.https = self.text("proxy");
        for name in ["extra-index-url", "find-links"] {
            sources.add(&self.text(name).unwrap_or_default());
        }
        for name in ["cert", "client-cert"] {
            sources.paths.extend(self.text(name).map(PathBuf::from));
        }
        sources
    }

    /// Whether no index may be used at all.
    pub(crate) fn no_index(&self) -> bool {
        self.is_on("no-index")
    }

    fn is_on(&self, name: &str) -> bool {
        self.text(name).is_some_and(|value| {
            !matches!(value.to_lowercase().as_str(), "0" | "false" | "no" | "off")
        })
    }

    fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned().filter(|value| !value.is_empty())
    }

    /// A number of seconds, rounded up: uv takes whole ones.
    fn whole_seconds(&self, name: &str) -> Option<String> {
        let seconds: f64 = self.text(name)?.parse().ok()?;
        (seconds > 0.0).then(|| (seconds.ceil() as u64).to_string())
    }

    fn joined(&self, name: &str, by: &str, keep: impl Fn(&str) -> bool) -> Option<String> {
        let text = self.text(name)?;
        let kept: Vec<&str> = text.split_whitespace().filter(|part| keep(part)).collect();
        (!kept.is_empty()).then(|| kept.join(by))
    }

    /// Parses `pip config list`: lines such as `global.index-url='https://…'`. Variables override the section
    /// of the command, and that overrides the global section.
    fn parse(text: &str) -> Self {
        let mut settings = BTreeMap::new();
        for section in ["global", "install", ":env:"] {
            for line in text.lines() {
                let option = line
                    .strip_prefix(section)
                    .and_then(|rest| rest.strip_prefix('.'))
                    .and_then(|rest| rest.split_once('='));
                if let Some((name, value)) = option {
                    settings.insert(name.to_owned(), unquote(value));
                }
            }
        }
        Self(settings)
    }
}

/// `index-url` is `PIP_INDEX_URL`.
fn variable_name(option: &str) -> String {
    format!("PIP_{}", option.to_uppercase().replace('-', "_"))
}

/// The string of which Python's `repr` is given.
fn unquote(text: &str) -> String {
    let inner = text
        .trim()
        .strip_prefix(['\'', '"'])
        .and_then(|rest| rest.strip_suffix(['\'', '"']))
        .unwrap_or(text);
    let mut out = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n' | 'r' | 't') => out.push('\n'),
                Some(other) => out.push(other),
                None => {}
            },
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pips_settings_become_uvs_variables() {
        let settings = PipSettings::parse(concat!(
            ":env:.find-links='/no/such/directory /'\n",
            "global.cert='/a/ca.pem'\n",
            "global.index-url='https://global.example/simple'\n",
            "install.index-url=\"https://install.example/it's\"\n",
            "global.extra-index-url='\\nhttps://one.example\\nhttps://two.example'\n",
            "global.no-index='false'\n",
            "global.timeout='2.5'\n",
            "global.retries='1'\n",
            "install.pre='yes'\n",
        ));
        assert_eq!(
            settings.uv_variables(Variables::default()),
            Variables::default()
                .with("UV_DEFAULT_INDEX", "https://install.example/it's")
                .with("UV_INDEX", "https://one.example https://two.example")
                .with("UV_FIND_LINKS", "/")
                .with("SSL_CERT_FILE", "/a/ca.pem")
                .with("UV_HTTP_TIMEOUT", "3")
                .with("UV_HTTP_RETRIES", "1")
                .with("UV_PRERELEASE", "allow")
        );
        assert!(!settings.no_index());
    }

    #[test]
    fn uvs_own_variables_stay() {
        let settings =
            PipSettings::parse("global.index-url='https://pip.example'\nglobal.cert='/pip.pem'");
        let own = Variables::default()
            .with("UV_INDEX_URL", "https://uv.example")
            .with("SSL_CERT_FILE", "/uv.pem");
        assert_eq!(settings.uv_variables(own.clone()), own);
    }

    #[test]
    fn without_pip_its_variables_are_read() {
        let variables = Variables::default()
            .with("PIP_NO_INDEX", "1")
            .with("PIP_TRUSTED_HOST", "a.example b.example");
        let settings = PipSettings::from_variables(&variables);
        assert!(settings.no_index());
        assert_eq!(
            settings.uv_variables(Variables::default()),
            Variables::default().with("UV_INSECURE_HOST", "a.example b.example")
        );
    }
}

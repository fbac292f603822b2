//! What pip is told about package indexes on this machine, said to uv.
//!
//! uv does not read pip's configuration. Where the only word on a mirror, a proxy or a certificate is
//! pip's, uv would go past it and fail.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{Variables, install::Job, pip::Pip, places::Places, uv_configuration::UvConfiguration};

/// pip's options, by name (`index-url`), in the text that its configuration has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PipSettings(BTreeMap<String, String>);

impl PipSettings {
    /// Asks pip; without one, reads the variables `PIP_…`. Empty where uv has a configuration of its own.
    pub(crate) fn read(job: &Job<'_>, pip: Option<&Pip>) -> Self {
        if UvConfiguration::is_there(job.variables) {
            return Self::default();
        }
        let listed = pip.and_then(|pip| pip.configuration(job));
        listed.map_or_else(
            || Self::from_variables(job.variables),
            |text| Self::parse(&text),
        )
    }

    /// The variables for uv: what it has already is left as it is.
    pub(crate) fn for_uv(&self, mut variables: Variables) -> Variables {
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
            // uv fails on a directory that is not there; pip goes on.
            self.joined("find-links", ",", |link| {
                link.contains("://") || Path::new(link).exists()
            }),
        );
        set(
            &["UV_INSECURE_HOST"],
            self.joined("trusted-host", " ", |_| true),
        );
        set(&["SSL_CERT_FILE"], self.text("cert"));
        set(
            &["ALL_PROXY", "HTTPS_PROXY", "https_proxy", "all_proxy"],
            self.text("proxy"),
        );
        variables
    }

    /// What pip itself is told, whatever uv is.
    pub(crate) fn read_for_pip(job: &Job<'_>, pip: &Pip) -> Self {
        pip.configuration(job).map_or_else(
            || Self::from_variables(job.variables),
            |text| Self::parse(&text),
        )
    }

    /// The variables for a pip that sees nothing of the user's: where packages come from, and no more.
    pub(crate) fn for_walls(&self) -> Vec<(OsString, OsString)> {
        let taken = [
            "index-url",
            "extra-index-url",
            "find-links",
            "no-index",
            "trusted-host",
            "cert",
            "client-cert",
            "timeout",
            "default-timeout",
            "retries",
            "pre",
            "prefer-binary",
            "uploaded-prior-to",
        ];
        let variable = |name: &str| {
            let value = self.text(name)?;
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            let variable = format!("PIP_{}", name.to_uppercase().replace('-', "_"));
            Some((variable.into(), value.into()))
        };
        taken.into_iter().filter_map(variable).collect()
    }

    /// Where packages come from: addresses and directories.
    pub(crate) fn places(&self) -> Places {
        let mut places = Places {
            no_index: self.no_index(),
            ..Places::default()
        };
        places.default_index = self.text("index-url");
        places.proxies.http = self.text("proxy");
        places.proxies.https = self.text("proxy");
        for name in ["extra-index-url", "find-links"] {
            places.add(&self.text(name).unwrap_or_default());
        }
        for name in ["cert", "client-cert"] {
            places.files.extend(self.text(name).map(PathBuf::from));
        }
        places
    }

    /// Whether no index may be asked at all.
    pub(crate) fn no_index(&self) -> bool {
        self.text("no-index").is_some_and(|value| {
            !matches!(value.to_lowercase().as_str(), "0" | "false" | "no" | "off")
        })
    }

    fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned().filter(|value| !value.is_empty())
    }

    fn joined(&self, name: &str, by: &str, keep: impl Fn(&str) -> bool) -> Option<String> {
        let text = self.text(name)?;
        let kept: Vec<&str> = text.split_whitespace().filter(|part| keep(part)).collect();
        (!kept.is_empty()).then(|| kept.join(by))
    }

    /// What the variables `PIP_…` say.
    pub(crate) fn from_variables(variables: &Variables) -> Self {
        let names = [
            "index-url",
            "extra-index-url",
            "find-links",
            "no-index",
            "trusted-host",
            "cert",
            "proxy",
        ];
        let value = |name: &&str| {
            let variable = format!("PIP_{}", name.to_uppercase().replace('-', "_"));
            let value = variables.get(&variable)?.to_str()?.to_owned();
            Some(((*name).to_owned(), value))
        };
        Self(names.iter().filter_map(value).collect())
    }

    /// Reads `pip config list`: lines such as `global.index-url='https://…'`. Variables win over the
    /// section of the command, that over the global one.
    fn parse(text: &str) -> Self {
        let mut settings = BTreeMap::new();
        for section in ["global", "install", ":env:"] {
            for line in text.lines() {
                let named = line
                    .strip_prefix(section)
                    .and_then(|rest| rest.strip_prefix('.'))
                    .and_then(|rest| rest.split_once('='));
                if let Some((name, value)) = named {
                    settings.insert(name.to_owned(), unquote(value));
                }
            }
        }
        Self(settings)
    }
}

/// Python's `repr` of a string, back to the string.
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
    fn what_pip_is_told_is_told_to_uv() {
        let settings = PipSettings::parse(concat!(
            ":env:.find-links='/no/such/directory /'\n",
            "global.cert='/a/ca.pem'\n",
            "global.index-url='https://global.example/simple'\n",
            "install.index-url=\"https://install.example/it's\"\n",
            "global.extra-index-url='\\nhttps://one.example\\nhttps://two.example'\n",
            "global.no-index='false'\n",
        ));
        assert_eq!(
            settings.for_uv(Variables::default()),
            Variables::default()
                .with("UV_DEFAULT_INDEX", "https://install.example/it's")
                .with("UV_INDEX", "https://one.example https://two.example")
                .with("UV_FIND_LINKS", "/")
                .with("SSL_CERT_FILE", "/a/ca.pem")
        );
        assert!(!settings.no_index());
    }

    #[test]
    fn what_uv_is_told_itself_wins() {
        let settings =
            PipSettings::parse("global.index-url='https://pip.example'\nglobal.cert='/pip.pem'");
        let own = Variables::default()
            .with("UV_INDEX_URL", "https://uv.example")
            .with("SSL_CERT_FILE", "/uv.pem");
        assert_eq!(settings.for_uv(own.clone()), own);
    }

    #[test]
    fn without_pip_its_variables_are_read() {
        let variables = Variables::default()
            .with("PIP_NO_INDEX", "1")
            .with("PIP_TRUSTED_HOST", "a.example b.example");
        let settings = PipSettings::from_variables(&variables);
        assert!(settings.no_index());
        assert_eq!(
            settings.for_uv(Variables::default()),
            Variables::default().with("UV_INSECURE_HOST", "a.example b.example")
        );
    }
}

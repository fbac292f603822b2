//! What uv's own configuration files say. Behind walls uv does not see them, so they are read for it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use toml::{Table, Value};

use crate::{Variables, places::Places};

/// The system's file and the user's, or the one that a variable names.
#[derive(Debug, Default)]
pub(crate) struct UvConfiguration(Vec<Table>);

/// Where uv finds the user's file, below the directory with configurations.
pub(crate) const BELOW: &str = "uv/uv.toml";

impl UvConfiguration {
    /// Whether there is one at all.
    pub(crate) fn is_there(variables: &Variables) -> bool {
        files(variables).iter().any(|path| path.exists())
    }

    pub(crate) fn read(variables: &Variables) -> Self {
        let texts = files(variables)
            .into_iter()
            .filter_map(|path| fs::read_to_string(path).ok());
        Self(texts.filter_map(|text| text.parse().ok()).collect())
    }

    /// The text of the one that counts most, which is nobody's but the user's.
    pub(crate) fn users(variables: &Variables) -> Option<String> {
        fs::read_to_string(files(variables).last()?).ok()
    }

    /// Adds where it says that packages come from.
    pub(crate) fn add_to<'a>(&'a self, places: &mut Places) {
        let pips = |table: &'a Table| table.get("pip").and_then(Value::as_table);
        let tables = self.0.iter().flat_map(|table| [Some(table), pips(table)]);
        for table in tables.flatten() {
            places.no_index |= table.get("no-index").and_then(Value::as_bool) == Some(true);
            if let Some(index) = table.get("index-url").and_then(Value::as_str) {
                places.default_index = Some(index.to_owned());
            }
            for name in ["extra-index-url", "find-links"] {
                for text in texts(table.get(name)) {
                    places.add(text);
                }
            }
            let indexes = table.get("index").and_then(Value::as_array);
            for index in indexes.into_iter().flatten() {
                let Some(url) = index.get("url").and_then(Value::as_str) else {
                    continue;
                };
                if index.get("default").and_then(Value::as_bool) == Some(true) {
                    places.default_index = Some(url.to_owned());
                }
                places.add(url);
            }
        }
    }
}

/// Those that uv reads, the weakest first.
fn files(variables: &Variables) -> Vec<PathBuf> {
    if let Some(file) = variables.absolute_path("UV_CONFIG_FILE") {
        return vec![file];
    }
    let user = variables
        .absolute_path("XDG_CONFIG_HOME")
        .or_else(|| Some(variables.absolute_path("HOME")?.join(".config")));
    let users = user.map(|directory| directory.join(BELOW));
    [Some(of_the_system()), users]
        .into_iter()
        .flatten()
        .collect()
}

/// The system's file.
pub(crate) fn of_the_system() -> PathBuf {
    Path::new("/etc").join(BELOW)
}

fn texts(value: Option<&Value>) -> Vec<&str> {
    let many = value.and_then(Value::as_array).into_iter().flatten();
    many.chain(value).filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_where_packages_come_from() {
        let text = "
            [[index]]
            url = 'https://one.example/simple'
            default = true
            [[index]]
            url = 'https://two.example/simple'
            [pip]
            find-links = ['/usr', 'https://links.example/']
        ";
        let mut places = Places::default();
        UvConfiguration(vec![text.parse().unwrap()]).add_to(&mut places);
        assert_eq!(
            places.hosts(),
            ["links.example", "one.example", "two.example"]
        );
        assert_eq!(places.shown().unwrap(), [PathBuf::from("/usr")]);
    }
}

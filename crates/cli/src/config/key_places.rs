//! Where the keys and the sections of a TOML text stand.

use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The places of the keys and of the heads of sections. A text with mistakes has those that could be read.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyPlaces {
    /// The line of each key, by its whole name: `agent.max_steps`.
    lines: BTreeMap<String, usize>,
    /// The heads of sections as they are written, such as `[agent]`, by where they begin.
    heads: BTreeMap<usize, String>,
}

impl KeyPlaces {
    pub(super) fn of(text: &str) -> KeyPlaces {
        let (table, _) = DeTable::parse_recoverable(text);
        let mut places = KeyPlaces::default();
        places.add_table(text, "", table.get_ref());
        places
    }

    /// The line of a key, which counts from 1. A section is a key too.
    pub(super) fn line_of(&self, key: &str) -> Option<usize> {
        self.lines.get(key).copied()
    }

    /// The head of the section that a place of the text is in. A head is in its own section.
    pub(super) fn section_at(&self, place: usize) -> Option<String> {
        let (_, head) = self.heads.range(..=place).next_back()?;
        Some(head.clone())
    }

    fn add_table(&mut self, text: &str, prefix: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let name = format!("{prefix}{}", key.get_ref());
            let line = text[..key.span().start].matches('\n').count() + 1;
            self.lines.insert(name.clone(), line);
            self.add_value(text, &format!("{name}."), value);
        }
    }

    fn add_value(&mut self, text: &str, prefix: &str, value: &Spanned<DeValue<'_>>) {
        match value.get_ref() {
            DeValue::Table(table) => {
                let written = &text[value.span()];
                if written.starts_with('[') && written.ends_with(']') {
                    self.heads.insert(value.span().start, written.to_owned());
                }
                self.add_table(text, prefix, table);
            }
            DeValue::Array(items) => {
                for item in items {
                    self.add_value(text, prefix, item);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::KeyPlaces;

    #[test]
    fn a_key_is_found_by_its_line() {
        let text = r"# mine
tools.files = []
[agent]
'max_steps' = 3
[model.capabilities]
tools = true
note = '''
name = 1'''
";
        let places = KeyPlaces::of(text);
        let lines = [
            "tools.files",
            "agent.max_steps",
            "model.capabilities",
            "model.capabilities.tools",
            "model.capabilities.name",
            "model.name",
        ]
        .map(|key| places.line_of(key));
        assert_eq!(lines, [Some(2), Some(4), Some(5), Some(6), None, None]);
    }

    #[test]
    fn a_place_is_in_the_section_whose_head_comes_before_it() {
        let text =
            "top = 1\n[agent] # mine\nmax_steps = 3\n[[tools]]\nlist = [\n  [1],\n]\nbad =\n";
        let places = KeyPlaces::of(text);
        let section_of = |word: &str| places.section_at(text.find(word).unwrap());
        assert_eq!(section_of("top"), None);
        assert_eq!(section_of("max_steps").as_deref(), Some("[agent]"));
        assert_eq!(section_of("[1]").as_deref(), Some("[[tools]]"));
        assert_eq!(section_of("bad").as_deref(), Some("[[tools]]"));
    }
}

//! Lines that ask for help about an object: `NAME?`, and `NAME??` for its source.

use cellblock::{Cursor, Detail};

/// A line that asks for help.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HelpLine<'a> {
    /// The expression that names the object: `np.array`, `table["x"]`.
    pub(crate) name: &'a str,
    pub(crate) detail: Detail,
}

impl<'a> HelpLine<'a> {
    /// Reads `NAME?`, `NAME??`, `?NAME` or `??NAME`. A comment or a text that ends with a question mark is no such line.
    pub(crate) fn parse(input: &'a str) -> Option<HelpLine<'a>> {
        let line = input.trim();
        let name = line.trim_matches('?');
        let marks = line.len() - name.len();
        let is_at_one_end = line.starts_with(name) || line.ends_with(name);
        let name = name.trim();
        let is_of_a_name = |c: char| c.is_alphanumeric() || "_.[]'\"-".contains(c);
        let is_name = name.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && name.chars().all(is_of_a_name);
        let detail = match marks {
            1 => Detail::Summary,
            2 => Detail::Source,
            _ => return None,
        };
        (is_name && is_at_one_end).then_some(HelpLine { name, detail })
    }

    /// The question about the object.
    pub(crate) fn cursor(&self) -> Cursor {
        Cursor::at_end(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_question_marks_at_one_end_asks_for_help() {
        let asks = |name, detail| Some(HelpLine { name, detail });
        assert_eq!(HelpLine::parse("x?"), asks("x", Detail::Summary));
        assert_eq!(
            HelpLine::parse(" np.array ?? "),
            asks("np.array", Detail::Source)
        );
        assert_eq!(HelpLine::parse("?zip"), asks("zip", Detail::Summary));
        assert_eq!(
            HelpLine::parse("d['a'].b?"),
            asks("d['a'].b", Detail::Summary)
        );
    }

    #[test]
    fn code_comments_and_texts_are_left_alone() {
        for input in [
            "x",
            "# why?",
            "'why?",
            "f() # ok?",
            "?x?",
            "x???",
            "?",
            "a b?",
            "7?",
        ] {
            assert_eq!(HelpLine::parse(input), None, "{input:?}");
        }
    }
}

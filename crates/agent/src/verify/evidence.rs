//! Whether an answer can be traced back to what code and tools gave.

use super::numbers::{Number, labelled_numbers, numbers, stated_numbers};
use super::text_parts::{has_words, names, normalized, quoted_texts, without_list_marks};
use serde_json::Value;
use std::collections::HashMap;

/// The longest text of an answer that is named as a whole in a warning.
const MAX_SHOWN_CHARS: usize = 80;

/// What the second run of the cells produced: texts, numbers, and values that were handed over as answers.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    text: String,
    numbers: Vec<Number>,
    /// Numbers that stand behind a label: `mean: 4.5`, `"mean": 4.5`, `mean = 4.5`, and `mean    4.5` in a table.
    labelled: HashMap<String, Vec<Number>>,
    answers: Vec<Value>,
    /// The names of files whose contents are the same as in the first run.
    files: Vec<String>,
}

impl Evidence {
    /// Adds a text: the output of a cell, the value of its last expression, a result of a tool, or a file.
    pub(super) fn add_text(&mut self, text: &str) {
        self.numbers.extend(numbers(text));
        for (label, number) in labelled_numbers(text) {
            self.labelled.entry(label).or_default().push(number);
        }
        self.text.push_str(&normalized(text));
        self.text.push('\n');
    }

    /// Adds a value that the code handed over with `final_answer`.
    pub(super) fn add_answer(&mut self, answer: Value) {
        self.answers.push(answer);
    }

    /// Adds a file whose contents are the same as in the first run.
    pub(super) fn add_same_file(&mut self, name: &str) {
        self.files.push(name.to_owned());
    }

    /// The parts of an answer that the evidence does not have. Numbers and names of the question may be repeated in a text.
    pub(super) fn untraced(&self, answer: &Value, question: &str) -> Vec<String> {
        // A value that a cell handed over is the answer itself. Without a schema its text is.
        let is_handed_over = self.answers.iter().any(|given| {
            is_same_value(given, answer) || answer.as_str().is_some_and(|text| text == shown(given))
        });
        if is_handed_over {
            return Vec::new();
        }
        let mut untraced = Vec::new();
        self.check_value(answer, question, &mut untraced);
        untraced
    }

    fn check_value(&self, value: &Value, question: &str, untraced: &mut Vec<String>) {
        let is_found = match value {
            Value::Null => self.has_any_word(&["None", "null", "nan", "NaN"]),
            Value::Bool(true) => self.has_any_word(&["True", "true"]),
            Value::Bool(false) => self.has_any_word(&["False", "false"]),
            Value::Number(number) => numbers(&number.to_string())
                .iter()
                .all(|number| self.has_number(number)),
            Value::Array(items) if items.is_empty() => self.has_any_word(&["[]", "set()", "()"]),
            Value::Object(map) if map.is_empty() => self.has_any_word(&["{}"]),
            Value::Array(items) => {
                let before = untraced.len();
                items
                    .iter()
                    .for_each(|item| self.check_value(item, question, untraced));
                // The same values in another order are another answer.
                if untraced.len() == before && !self.has_in_order(items) {
                    untraced.push(value.to_string().chars().take(MAX_SHOWN_CHARS).collect());
                }
                return;
            }
            Value::Object(map) => {
                for (key, item) in map {
                    let number = item.as_f64().map(|_| numbers(&item.to_string()));
                    match number.as_deref() {
                        Some([number]) if self.contradicts(key, number) => {
                            untraced.push(format!("{key}: {item}"));
                        }
                        _ => self.check_value(item, question, untraced),
                    }
                }
                return;
            }
            Value::String(text) => return self.check_text(text, question, untraced),
        };
        if !is_found {
            untraced.push(value.to_string());
        }
    }

    /// Checks a text: it stands in the evidence as a whole, or every number, quoted text and name in it does.
    fn check_text(&self, text: &str, question: &str, untraced: &mut Vec<String>) {
        let whole = normalized(text);
        let whole = whole.trim_matches(['.', '*', '`', '"', '\'', ' ', '\u{3002}']);
        if whole.is_empty() || has_words(&self.text, whole) {
            return;
        }
        if let Some(read) = crate::repair::read_value(text)
            && matches!(read.value, Value::Array(_) | Value::Object(_))
        {
            return self.check_value(&read.value, question, untraced);
        }
        let question_numbers = numbers(question);
        let question = normalized(question);
        let mut is_traced = false;
        let before = untraced.len();
        let stated = without_list_marks(text);
        let contradicted: Vec<Number> = stated_numbers(&stated)
            .into_iter()
            .filter(|(words, number)| {
                // The word next to the number that is a label decides.
                let mut labels = words.iter().filter(|word| word.chars().count() > 1);
                let label = labels.find(|word| self.labelled.contains_key(*word));
                label.is_some_and(|label| self.contradicts(label, number))
            })
            .map(|(_, number)| number)
            .collect();
        for number in numbers(&stated) {
            if contradicted.contains(&number) {
                untraced.push(number.digits.clone());
            } else if self.has_number(&number) {
                is_traced = true;
            } else if !question_numbers.iter().any(|given| number.fits(given)) {
                untraced.push(number.digits.clone());
            }
        }
        for name in quoted_texts(text).into_iter().chain(names(text)) {
            let name = normalized(&name);
            if self.files.contains(&name) || has_words(&self.text, &name) {
                is_traced = true;
            } else if !has_words(&question, &name) && numbers(&name).is_empty() {
                untraced.push(name);
            }
        }
        let is_clear = untraced.len() == before;
        if is_clear && !is_traced && !self.has_line_in(whole) && !self.agrees_with(whole) {
            untraced.push(whole.chars().take(MAX_SHOWN_CHARS).collect());
        }
    }

    /// Whether the evidence has other numbers for this label, and not this one: the answer has swapped two of them.
    fn contradicts(&self, label: &str, number: &Number) -> bool {
        let found = self.labelled.get(&label.to_lowercase());
        found.is_some_and(|found| !found.iter().any(|found| number.fits(found)))
    }

    /// Whether the numbers of a list stand in the evidence in this order, or as a set that it shows. Other lists are not checked.
    fn has_in_order(&self, items: &[Value]) -> bool {
        let wanted: Option<Vec<Number>> = items
            .iter()
            .map(
                |item| match numbers(&item.as_f64().map(|_| item.to_string())?).as_slice() {
                    [number] => Some(number.clone()),
                    _ => None,
                },
            )
            .collect();
        let Some(wanted) = wanted else {
            return true;
        };
        let mut wanted = wanted.iter().peekable();
        for found in &self.numbers {
            if wanted.next_if(|number| number.fits(found)).is_some() && wanted.peek().is_none() {
                break;
            }
        }
        wanted.peek().is_none()
    }

    fn has_number(&self, number: &Number) -> bool {
        self.numbers.iter().any(|found| number.fits(found))
    }

    fn has_any_word(&self, words: &[&str]) -> bool {
        words.iter().any(|word| has_words(&self.text, word))
    }

    /// Whether the answer repeats a whole line of the evidence.
    fn has_line_in(&self, answer: &str) -> bool {
        let lines = self
            .text
            .lines()
            .map(|line| line.trim().trim_matches(['\'', '"']));
        lines
            .filter(|line| line.chars().count() >= 2 && !line.starts_with(['<', '#']))
            .filter(|line| !matches!(*line, "True" | "False" | "None"))
            .any(|line| has_words(answer, line))
    }

    /// Whether the answer says yes or no, and the evidence has `True` or `False`, and not both.
    fn agrees_with(&self, answer: &str) -> bool {
        let first: String = answer
            .chars()
            .take_while(|c| c.is_alphabetic())
            .collect::<String>()
            .to_lowercase();
        let is_yes = matches!(first.as_str(), "yes" | "true") || answer.starts_with('\u{662f}');
        let is_no = matches!(first.as_str(), "no" | "false")
            || answer.starts_with('\u{5426}')
            || answer.starts_with('\u{4e0d}');
        let has_true = self.has_any_word(&["True", "true"]);
        let has_false = self.has_any_word(&["False", "false"]);
        (is_yes && has_true && !has_false) || (is_no && has_false && !has_true)
    }
}

/// Whether two values are the same, whole numbers and their decimal form too.
fn is_same_value(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| is_same_value(a, b))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(key, a)| other.get(key).is_some_and(|b| is_same_value(a, b)))
        }
        _ => one == other,
    }
}

/// A value as the text of an answer.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::Evidence;
    use serde_json::{Value, json};

    fn untraced(printed: &str, answer: Value) -> Vec<String> {
        let mut evidence = Evidence::default();
        evidence.add_text(printed);
        evidence.untraced(&answer, "What do 15000 become at 6 % in Rome?")
    }

    #[test]
    fn an_answer_that_the_evidence_has_is_traced() {
        let cases = [
            ("42", json!("42")),
            ("42", json!("It is 42.")),
            ("21386.413302", json!("15000 become 21,386.41 at 6 %.")),
            ("0.1253", json!("About 12.5 % of them.")),
            ("1234567", json!("1.2 million people")),
            ("Anna Schmidt", json!("The best is Anna Schmidt.")),
            ("aQue9ScN", json!("The text backwards is \"aQue9ScN\".")),
            ("True", json!("Yes, it is a prime.")),
            (
                "{'mean': 2.0, 'names': ['a']}",
                json!({"mean": 2, "names": ["a"]}),
            ),
            ("[1, 2]\n3", json!("1. The first is 1\n2. The second is 2")),
            ("12345678901234567890", json!("12345678901234567890")),
            ("-5", json!("-5")),
            (
                "mean: 5\nmedian: 3",
                json!("The mean is 5 and the median is 3."),
            ),
            (
                "mean     5.25\nstd      1.5",
                json!({"mean": 5.3, "std": 1.5}),
            ),
            ("{'a': 1, 'b': 2}", json!({"b": 2, "a": 1})),
            ("[3, 1, 2]", json!([3, 1, 2])),
            ("3 rows\n1 file\n2 tables", json!([3, 2])),
            ("43ab9c0d", json!("The hash is 43ab9c0d.")),
            ("12345678e2", json!("1234567800")),
            ("count = 5", json!("There are 5 of them above 15000.")),
        ];
        for (printed, answer) in cases {
            assert_eq!(
                untraced(printed, answer.clone()),
                [""; 0],
                "{printed}: {answer}"
            );
        }
    }

    #[test]
    fn an_answer_that_the_evidence_does_not_have_is_not_traced() {
        let cases = [
            ("42", json!("43"), vec!["43"]),
            ("42", json!("It is 43."), vec!["43"]),
            ("21386.413302", json!("21386.42"), vec!["21386.42"]),
            ("42", json!("15000"), vec!["15000"]),
            ("Anna Schmidt", json!("The best is Bert."), vec!["Bert"]),
            ("aQue9ScN", json!("aQue9Scn"), vec!["aQue9Scn"]),
            ("True", json!("No, it is not."), vec!["No, it is not"]),
            ("True\nFalse", json!("Yes."), vec!["Yes"]),
            ("{'mean': 2.0}", json!({"mean": 2.5}), vec!["mean: 2.5"]),
            (
                "12345678901234567890",
                json!("12345678901234567891"),
                vec!["12345678901234567891"],
            ),
            ("-5", json!("5"), vec!["5"]),
            ("", json!("All is well."), vec!["All is well"]),
            ("1", json!(true), vec!["true"]),
            (
                "mean: 5\nmedian: 3",
                json!("The mean is 3 and the median is 5."),
                vec!["3", "5"],
            ),
            (
                "{'a': 1, 'b': 2}",
                json!({"a": 2, "b": 1}),
                vec!["a: 2", "b: 1"],
            ),
            (
                "mean     5.25\nstd      1.5",
                json!("The std is 5.25."),
                vec!["5.25"],
            ),
            ("[3, 1, 2]", json!([1, 2, 3]), vec!["[1,2,3]"]),
            ("43ab9c0d", json!("43"), vec!["43"]),
            ("43ab9c0d", json!("The hash is 43ab9c0e."), vec!["43ab9c0e"]),
        ];
        for (printed, answer, expected) in cases {
            assert_eq!(
                untraced(printed, answer.clone()),
                expected,
                "{printed}: {answer}"
            );
        }
    }
}

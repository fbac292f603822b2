//! Tools of the host, as the code in a session sees them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json::fields::{Field, Fields};
use crate::json::invalid::{Invalid, shown_text};

/// A host tool as the code in a session sees it: enough to make a Python function with a signature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct ToolSpec {
    /// The name; where it is no Python identifier the guest maps it (`-` becomes `_`).
    pub name: String,
    /// The docstring: what the tool does.
    pub description: String,
    /// The JSON schema of its arguments: an object.
    pub parameters: Map<String, Value>,
}

impl ToolSpec {
    const FIELDS: &'static [&'static str] = &["name", "description", "parameters"];
    const MAX_NAME_CHARS: usize = 64;

    /// Whether the name can be used.
    pub fn validate(&self) -> Result<(), Invalid> {
        let good = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        let length = self.name.chars().count();
        if length == 0 || length > Self::MAX_NAME_CHARS || !self.name.chars().all(good) {
            let expected = "1 to 64 letters, digits, `_`, `-` or `.`";
            return Err(Invalid::value("name", expected, shown_text(&self.name)));
        }
        Ok(())
    }
}

impl TryFrom<Map<String, Value>> for ToolSpec {
    type Error = Invalid;

    fn try_from(map: Map<String, Value>) -> Result<Self, Invalid> {
        let mut fields = Fields::new(map);
        let spec = Self {
            name: fields.required("name")?,
            description: fields.optional("description")?.unwrap_or_default(),
            parameters: fields.optional("parameters")?.unwrap_or_default(),
        };
        fields.finish(Self::FIELDS)?;
        spec.validate()?;
        Ok(spec)
    }
}

impl Field for Vec<ToolSpec> {
    const EXPECTED: &'static str = "a list of {name, description, parameters}";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        read_list(name, value)
    }
}

impl Field for Vec<ClientToolSpec> {
    const EXPECTED: &'static str = "a list of {name, description, parameters, changes}";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        read_list(name, value)
    }
}

fn read_list<T>(name: &str, value: Value) -> Result<Vec<T>, Invalid>
where
    Vec<T>: Field,
    T: TryFrom<Map<String, Value>, Error = Invalid>,
{
    let Value::Array(items) = value else {
        return Err(Vec::<T>::refuse(name, &value));
    };
    let read = |(at, item)| {
        let path = format!("{name}[{at}]");
        let map = Map::read(&path, item)?;
        T::try_from(map).map_err(|error: Invalid| error.inside(&path))
    };
    items.into_iter().enumerate().map(read).collect()
}

/// A tool of a run that a client answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct ClientToolSpec {
    /// The tool as the code sees it.
    #[serde(flatten)]
    pub spec: ToolSpec,
    /// Whether a call changes something that no undo brings back. A reply that is only tried makes no such calls.
    pub changes: bool,
}

impl TryFrom<Map<String, Value>> for ClientToolSpec {
    type Error = Invalid;

    fn try_from(mut map: Map<String, Value>) -> Result<Self, Invalid> {
        let changes = map.remove("changes").filter(|given| !given.is_null());
        let changes = changes.map(|given| bool::read("changes", given));
        let changes = changes.transpose()?.unwrap_or(false);
        let spec = ToolSpec::try_from(map)?;
        Ok(Self { spec, changes })
    }
}

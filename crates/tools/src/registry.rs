//! All tools of a program, in one place.

use crate::any_tool::Typed;
use crate::call::take_purpose;
use crate::check::Checker;
use crate::{
    AnyTool, Arguments, CallLimits, Definition, Failure, SchemaForm, Tool, Uses, function_schema,
};
use cellblock_protocol::ToolSpec;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The tools there are. What is registered here appears in the schemas, is dispatched, becomes a function inside sessions,
/// and is offered over MCP. A handle: clones are the same registry.
#[derive(Clone)]
pub struct Registry {
    entries: Arc<Vec<Arc<Entry>>>,
    by_name: Arc<HashMap<String, usize>>,
}

/// Tools being gathered.
#[derive(Default)]
pub struct RegistryBuilder {
    tools: Vec<Arc<dyn AnyTool>>,
}

/// Why tools cannot be registered together. Found at start-up, before any call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Two have the same name.
    #[error("two tools are called `{0}`; rename one of them")]
    Duplicate(String),
    /// Inside Python two would have the same name.
    #[error("the tools `{0}` and `{1}` would both be called `{2}` in Python; rename one of them")]
    SameInPython(String, String, String),
    /// A name that cannot be used.
    #[error("a tool cannot be called {name:?}: {expected}")]
    Name {
        /// The name.
        name: String,
        /// What would do.
        expected: &'static str,
    },
    /// A schema that is none.
    #[error("the tool `{name}`: {problem}")]
    Schema {
        /// Of which tool.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// One tool with what is needed to call it.
pub(crate) struct Entry {
    pub(crate) definition: Definition,
    pub(crate) arguments: Checker,
    pub(crate) result: Option<Checker>,
    pub(crate) tool: Arc<dyn AnyTool>,
}

impl Registry {
    /// An empty registry to fill.
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder::default()
    }

    /// What each tool is, in the order of registration.
    pub fn definitions(&self) -> impl Iterator<Item = &Definition> {
        self.entries.iter().map(|entry| &entry.definition)
    }

    /// What a tool is, by its name or one of its aliases.
    pub fn get(&self, name: &str) -> Option<&Definition> {
        let index = *self.by_name.get(name)?;
        self.entries.get(index).map(|entry| &entry.definition)
    }

    /// The names, in the order of registration.
    pub fn names(&self) -> Vec<&str> {
        self.definitions()
            .map(|definition| definition.name.as_str())
            .collect()
    }

    /// Every tool in the form of OpenAI's API, with the purpose that a model must give.
    pub fn schemas(&self, form: SchemaForm) -> Vec<Value> {
        self.definitions()
            .map(|definition| function_schema(definition, form))
            .collect()
    }

    /// The same tools without one of them.
    pub fn without(&self, name: &str) -> Registry {
        let entries: Vec<Arc<Entry>> = self
            .entries
            .iter()
            .filter(|entry| entry.definition.name != name)
            .cloned()
            .collect();
        let mut by_name = HashMap::new();
        for (index, entry) in entries.iter().enumerate() {
            let names = std::iter::once(&entry.definition.name).chain(&entry.definition.aliases);
            by_name.extend(names.map(|name| (name.clone(), index)));
        }
        Registry {
            entries: Arc::new(entries),
            by_name: Arc::new(by_name),
        }
    }

    /// Checks arguments against the schema of a tool, as a call would: what comes back is converted and without the purpose.
    pub fn check(
        &self,
        name: &str,
        arguments: impl Into<Arguments>,
    ) -> Result<Map<String, Value>, Failure> {
        let entry = self.entry(name)?;
        let tool = &entry.definition.name;
        let mut arguments = arguments.into().read(tool, CallLimits::default().bytes)?;
        take_purpose(&mut arguments);
        let checked = entry.arguments.arguments(arguments);
        checked.map_err(|problems| Failure::Invalid {
            tool: tool.clone(),
            problems,
        })
    }

    /// The tools that code in a session may call, as the session offers them.
    pub fn offered_to_code(&self) -> Vec<ToolSpec> {
        let offered = self
            .definitions()
            .filter(|definition| definition.uses != Uses::Interpreter);
        offered
            .map(|definition| ToolSpec {
                name: definition.name.clone(),
                description: definition.description.clone(),
                parameters: definition.parameters.clone(),
            })
            .collect()
    }

    pub(crate) fn entry(&self, name: &str) -> Result<&Arc<Entry>, Failure> {
        let found = self
            .by_name
            .get(name)
            .and_then(|index| self.entries.get(*index));
        found.ok_or_else(|| Failure::UnknownTool {
            name: name.chars().filter(|c| !c.is_control()).take(64).collect(),
            known: match self.names().join(", ") {
                known if known.is_empty() => "none".to_owned(),
                known => known,
            },
        })
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Registry").field(&self.names()).finish()
    }
}

impl RegistryBuilder {
    /// Adds a tool.
    pub fn tool(self, tool: impl Tool) -> RegistryBuilder {
        self.any(Arc::new(Typed(tool)))
    }

    /// Adds a tool of any kind.
    pub fn any(mut self, tool: Arc<dyn AnyTool>) -> RegistryBuilder {
        self.tools.push(tool);
        self
    }

    /// Adds several.
    pub fn extend(mut self, tools: impl IntoIterator<Item = Arc<dyn AnyTool>>) -> RegistryBuilder {
        self.tools.extend(tools);
        self
    }

    /// The registry, when all the names and schemas can be used.
    pub fn build(self) -> Result<Registry, RegistryError> {
        let mut by_name = HashMap::new();
        let mut in_python: HashMap<String, String> = HashMap::new();
        let mut entries = Vec::new();
        for tool in self.tools {
            let definition = tool.definition();
            let names = std::iter::once(&definition.name).chain(&definition.aliases);
            for name in names {
                check_name(name)?;
                if by_name.insert(name.clone(), entries.len()).is_some() {
                    return Err(RegistryError::Duplicate(name.clone()));
                }
            }
            let python = python_name(&definition.name);
            if let Some(other) = in_python.insert(python.clone(), definition.name.clone()) {
                return Err(RegistryError::SameInPython(other, definition.name, python));
            }
            entries.push(Arc::new(Entry::new(definition, tool)?));
        }
        Ok(Registry {
            entries: Arc::new(entries),
            by_name: Arc::new(by_name),
        })
    }
}

impl Entry {
    fn new(definition: Definition, tool: Arc<dyn AnyTool>) -> Result<Entry, RegistryError> {
        let arguments = Checker::new(Value::Object(definition.parameters.clone()));
        let result = definition.result.clone().map(Checker::new);
        for checker in std::iter::once(&arguments).chain(&result) {
            checker
                .validator()
                .map_err(|problem| RegistryError::Schema {
                    name: definition.name.clone(),
                    problem,
                })?;
        }
        Ok(Entry {
            definition,
            arguments,
            result,
            tool,
        })
    }
}

/// What every model's API takes as the name of a function.
fn check_name(name: &str) -> Result<(), RegistryError> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if (1..=64).contains(&name.len()) && name.chars().all(good) {
        return Ok(());
    }
    Err(RegistryError::Name {
        name: name.chars().take(80).collect(),
        expected: "1 to 64 letters, digits, `_` or `-` are needed",
    })
}

/// The name of a tool's function inside Python. Keywords get an underscore there, which no two names can share.
fn python_name(name: &str) -> String {
    name.replace('-', "_")
}

//! All tools of a program, in one place.

mod tool;

use crate::builtin::describe_in_chinese;
use crate::call::take_purpose;
use crate::schema::Checker;
use crate::{Arguments, CallLimits, Failure, SchemaForm, function_schema};
use cellblock_protocol::{Locale, ToolSpec};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

pub(crate) use tool::TypedTool;
pub use tool::{DynamicTool, Effects, Tool, ToolDefinition, ToolFuture, Uses};

/// The longest name of a tool, which every model's API takes.
const MAX_NAME_BYTES: usize = 64;

/// A set of tools. A registered tool is in the schemas for models, can be called, is a function inside
/// sessions, and is offered over MCP. Cheap to clone: clones share the tools.
#[derive(Clone)]
pub struct Registry {
    tools: Arc<Vec<Arc<RegisteredTool>>>,
    by_name: Arc<HashMap<String, usize>>,
}

/// Collects the tools of a [`Registry`].
#[derive(Default)]
pub struct RegistryBuilder {
    tools: Vec<Arc<dyn DynamicTool>>,
    locale: Locale,
}

/// Why tools cannot be registered together. Found by [`RegistryBuilder::build`], before any call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Two tools have the same name.
    #[error("two tools are called `{0}`; rename one of them")]
    Duplicate(String),
    /// Two tools would have the same name inside Python, where `-` is `_`.
    #[error(
        "the tools `{first}` and `{second}` would both be called `{python_name}` in Python; rename one of them"
    )]
    SameInPython {
        /// One tool.
        first: String,
        /// The other tool.
        second: String,
        /// The name of both inside Python.
        python_name: String,
    },
    /// A name cannot be used.
    #[error("a tool cannot be called {name:?}: {expected}")]
    Name {
        /// The name, shortened.
        name: String,
        /// What a name must be.
        expected: &'static str,
    },
    /// A schema cannot be used.
    #[error("the tool `{name}`: {problem}")]
    Schema {
        /// The tool.
        name: String,
        /// What is wrong with its schema.
        problem: String,
    },
}

/// One tool with the checks of its arguments and its result.
pub(crate) struct RegisteredTool {
    pub(crate) definition: ToolDefinition,
    pub(crate) arguments: Checker,
    pub(crate) result: Option<Checker>,
    pub(crate) tool: Arc<dyn DynamicTool>,
}

impl Registry {
    /// A builder without tools.
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder::default()
    }

    /// The definition of each tool, in the order of registration.
    pub fn definitions(&self) -> impl Iterator<Item = &ToolDefinition> {
        self.tools.iter().map(|tool| &tool.definition)
    }

    /// The definition of a tool, by its name or one of its aliases.
    pub fn get(&self, name: &str) -> Option<&ToolDefinition> {
        let index = *self.by_name.get(name)?;
        self.tools.get(index).map(|tool| &tool.definition)
    }

    /// The names of the tools, in the order of registration.
    pub fn names(&self) -> Vec<&str> {
        self.definitions()
            .map(|definition| definition.name.as_str())
            .collect()
    }

    /// The schema of every tool in the form of OpenAI's API, with the purpose that a model must give.
    pub fn schemas(&self, form: SchemaForm) -> Vec<Value> {
        self.definitions()
            .map(|definition| function_schema(definition, form))
            .collect()
    }

    /// The same tools without one of them.
    pub fn without(&self, name: &str) -> Registry {
        let tools: Vec<Arc<RegisteredTool>> = self
            .tools
            .iter()
            .filter(|tool| tool.definition.name != name)
            .cloned()
            .collect();
        let mut by_name = HashMap::new();
        for (index, tool) in tools.iter().enumerate() {
            let names = std::iter::once(&tool.definition.name).chain(&tool.definition.aliases);
            by_name.extend(names.map(|name| (name.clone(), index)));
        }
        Registry {
            tools: Arc::new(tools),
            by_name: Arc::new(by_name),
        }
    }

    /// Checks arguments against the schema of a tool, as a call does. The answer is the converted arguments
    /// without the purpose.
    pub fn check(
        &self,
        name: &str,
        arguments: impl Into<Arguments>,
    ) -> Result<Map<String, Value>, Failure> {
        let tool = self.find(name)?;
        let name = &tool.definition.name;
        let max_bytes = CallLimits::default().max_bytes;
        let mut arguments = arguments.into().read(name, max_bytes)?;
        take_purpose(&mut arguments);
        let checked = tool.arguments.check_arguments(arguments);
        checked.map_err(|problems| Failure::Invalid {
            tool: name.clone(),
            problems,
        })
    }

    /// The tools that code in a session may call: those that do not use the interpreter.
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

    /// A tool by its name or one of its aliases.
    pub(crate) fn find(&self, name: &str) -> Result<&Arc<RegisteredTool>, Failure> {
        let found = self
            .by_name
            .get(name)
            .and_then(|index| self.tools.get(*index));
        found.ok_or_else(|| Failure::UnknownTool {
            name: name
                .chars()
                .filter(|c| !c.is_control())
                .take(MAX_NAME_BYTES)
                .collect(),
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
    /// Adds a tool in Rust.
    pub fn tool(self, tool: impl Tool) -> RegistryBuilder {
        self.dynamic(Arc::new(TypedTool(tool)))
    }

    /// Adds a tool whose schema is known only at run time.
    pub fn dynamic(mut self, tool: Arc<dyn DynamicTool>) -> RegistryBuilder {
        self.tools.push(tool);
        self
    }

    /// Adds several tools whose schemas are known only at run time.
    pub fn extend(
        mut self,
        tools: impl IntoIterator<Item = Arc<dyn DynamicTool>>,
    ) -> RegistryBuilder {
        self.tools.extend(tools);
        self
    }

    /// Puts a tool into the place of the one with the same name; adds it where there is none.
    pub fn replace(mut self, tool: Arc<dyn DynamicTool>) -> RegistryBuilder {
        let name = tool.definition().name;
        let mut added = self.tools.iter_mut();
        match added.find(|added| added.definition().name == name) {
            Some(place) => *place = tool,
            None => self.tools.push(tool),
        }
        self
    }

    /// Sets the language of what models read: the descriptions of the built-in tools, and what is wrong with arguments.
    pub fn locale(mut self, locale: Locale) -> RegistryBuilder {
        self.locale = locale;
        self
    }

    /// Whether a tool of this name was added.
    pub fn contains(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.definition().name == name)
    }

    /// Makes the registry.
    ///
    /// # Errors
    ///
    /// A [`RegistryError`] where two tools have one name, or a name or a schema cannot be used.
    pub fn build(self) -> Result<Registry, RegistryError> {
        let mut by_name = HashMap::new();
        let mut in_python: HashMap<String, String> = HashMap::new();
        let mut tools = Vec::new();
        for tool in self.tools {
            let mut definition = tool.definition();
            if self.locale == Locale::Zh {
                describe_in_chinese(&mut definition);
            }
            let names = std::iter::once(&definition.name).chain(&definition.aliases);
            for name in names {
                check_name(name)?;
                if by_name.insert(name.clone(), tools.len()).is_some() {
                    return Err(RegistryError::Duplicate(name.clone()));
                }
            }
            let python = python_name(&definition.name);
            if let Some(other) = in_python.insert(python.clone(), definition.name.clone()) {
                return Err(RegistryError::SameInPython {
                    first: other,
                    second: definition.name,
                    python_name: python,
                });
            }
            tools.push(Arc::new(RegisteredTool::new(
                definition,
                tool,
                self.locale,
            )?));
        }
        Ok(Registry {
            tools: Arc::new(tools),
            by_name: Arc::new(by_name),
        })
    }
}

impl RegisteredTool {
    fn new(
        definition: ToolDefinition,
        tool: Arc<dyn DynamicTool>,
        locale: Locale,
    ) -> Result<RegisteredTool, RegistryError> {
        let new_checker = |schema: Value| Checker::new(schema, locale);
        let arguments = new_checker(Value::Object(definition.parameters.clone()));
        let result = definition.result.clone().map(new_checker);
        for checker in std::iter::once(&arguments).chain(&result) {
            checker
                .validator()
                .map_err(|problem| RegistryError::Schema {
                    name: definition.name.clone(),
                    problem,
                })?;
        }
        Ok(RegisteredTool {
            definition,
            arguments,
            result,
            tool,
        })
    }
}

/// Refuses a name that not every model's API takes as the name of a function.
fn check_name(name: &str) -> Result<(), RegistryError> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if (1..=MAX_NAME_BYTES).contains(&name.len()) && name.chars().all(is_allowed) {
        return Ok(());
    }
    Err(RegistryError::Name {
        name: name.chars().take(80).collect(),
        expected: "1 to 64 letters, digits, `_` or `-` are needed",
    })
}

/// The name of a tool's function inside Python.
fn python_name(name: &str) -> String {
    name.replace('-', "_")
}

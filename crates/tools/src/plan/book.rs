//! Every version of a plan.

use super::PlanTree;
use super::check::{PlanError, check};
use super::diff::{PlanDiff, diff};
use super::flat::{each_mut, flat};
use super::render;
use super::statistics::Statistics;
use super::words::Words;
use cellblock_protocol::Locale;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use uuid::Uuid;

/// The versions of one plan, the newest last.
#[derive(Clone, Debug, Default)]
pub struct PlanBook {
    versions: Vec<Arc<PlanTree>>,
}

/// What an update came to.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanUpdate {
    /// The number of the version, from 1.
    pub version: usize,
    /// What changed.
    pub diff: PlanDiff,
    /// How far the plan is.
    pub statistics: Statistics,
    /// The text that the model reads, at most 8 000 characters.
    pub text: String,
    /// The tree as Markdown, whole: for people.
    pub markdown: String,
}

impl PlanBook {
    /// Takes a new version. One that is refused changes nothing.
    pub fn update(&mut self, mut tree: PlanTree, locale: Locale) -> Result<PlanUpdate, PlanError> {
        // Names and ids first: ids are given by name.
        check(&flat(&tree))?;
        self.give_ids(&mut tree);
        let tasks = flat(&tree);
        check(&tasks)?;
        let diff = match self.current() {
            Some(before) => diff(&flat(before), &tasks),
            None => PlanDiff {
                created: true,
                ..PlanDiff::default()
            },
        };
        let words = Words::of(locale);
        let update = PlanUpdate {
            version: self.versions.len() + 1,
            statistics: Statistics::of(&tasks),
            text: render::text(&tasks, &diff, words),
            markdown: render::tree(&tasks, words),
            diff,
        };
        self.versions.push(Arc::new(tree));
        Ok(update)
    }

    /// The newest version.
    pub fn current(&self) -> Option<&Arc<PlanTree>> {
        self.versions.last()
    }

    /// The newest version as Markdown, whole.
    pub fn markdown(&self, locale: Locale) -> Option<String> {
        let tasks = flat(self.current()?);
        Some(render::tree(&tasks, Words::of(locale)))
    }

    /// All versions, the oldest first.
    pub fn versions(&self) -> &[Arc<PlanTree>] {
        &self.versions
    }

    /// A task without an id is the one of that name; if there was none, it gets an id of its own.
    fn give_ids(&self, tree: &mut PlanTree) {
        let known: HashMap<String, String> = match self.current() {
            Some(before) => flat(before)
                .iter()
                .map(|task| (task.name().to_owned(), task.id().to_owned()))
                .collect(),
            None => HashMap::new(),
        };
        let mut taken: HashSet<String> = flat(tree)
            .iter()
            .filter_map(|task| task.node.task_id.clone())
            .collect();
        each_mut(tree, |node| {
            if node.task_id.is_none()
                && let Some(id) = known.get(&node.task_name)
                && taken.insert(id.clone())
            {
                node.task_id = Some(id.clone());
            }
        });
        // A new task must not be taken for one that is gone.
        taken.extend(known.into_values());
        each_mut(tree, |node| {
            if node.task_id.is_none() {
                let id = fresh_id(&node.task_name, &taken);
                taken.insert(id.clone());
                node.task_id = Some(id);
            }
        });
    }
}

/// An id made from the name: the same run gives the same ids on every machine, so that recordings match.
fn fresh_id(name: &str, taken: &HashSet<String>) -> String {
    let mut salt = 0;
    loop {
        let id = format!(
            "TASK-{}",
            Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{salt}/{name}").as_bytes())
        );
        if !taken.contains(&id) {
            return id;
        }
        salt += 1;
    }
}

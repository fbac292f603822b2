//! Random edits of random plans: the diff names exactly them.

use cellblock_protocol::Locale;
use cellblock_tools::plan::{
    Edit, Move, PlanDiff, PlanHistory, PlanNode, PlanTree, StatusChange, TaskStatus,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A plan as a list: for each task the one above it, by its place in the list. Ids are places, so that tasks keep them.
#[derive(Clone, Debug)]
struct Model {
    tasks: Vec<Option<Task>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Task {
    name: String,
    parent: Option<usize>,
    status: TaskStatus,
    description: Option<String>,
    output: Option<String>,
    dependencies: BTreeSet<usize>,
}

#[derive(Clone, Debug)]
enum Change {
    Add { below: usize },
    Delete { which: usize },
    Status { which: usize, status: usize },
    Move { which: usize, below: usize },
    Describe { which: usize, text: u8 },
    Output { which: usize, text: u8 },
    Depend { which: usize, on: usize },
    Rename { which: usize },
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        any::<usize>().prop_map(|below| Change::Add { below }),
        any::<usize>().prop_map(|which| Change::Delete { which }),
        (any::<usize>(), 0..6usize).prop_map(|(which, status)| Change::Status { which, status }),
        (any::<usize>(), any::<usize>()).prop_map(|(which, below)| Change::Move { which, below }),
        (any::<usize>(), 0..3u8).prop_map(|(which, text)| Change::Describe { which, text }),
        (any::<usize>(), 0..3u8).prop_map(|(which, text)| Change::Output { which, text }),
        (any::<usize>(), any::<usize>()).prop_map(|(which, on)| Change::Depend { which, on }),
        any::<usize>().prop_map(|which| Change::Rename { which }),
    ]
}

impl Model {
    fn live(&self) -> Vec<usize> {
        (0..self.tasks.len())
            .filter(|index| self.tasks[*index].is_some())
            .collect()
    }

    fn pick(&self, number: usize) -> Option<usize> {
        let live = self.live();
        (!live.is_empty()).then(|| live[number % live.len()])
    }

    fn task(&mut self, index: usize) -> &mut Task {
        self.tasks[index].as_mut().unwrap()
    }

    fn is_below(&self, index: usize, above: usize) -> bool {
        let mut at = Some(index);
        while let Some(here) = at {
            if here == above {
                return true;
            }
            at = self.tasks[here].as_ref().unwrap().parent;
        }
        false
    }

    fn apply(&mut self, change: &Change) {
        match *change {
            Change::Add { below } => {
                // One choice more than there are tasks: the root.
                let live = self.live();
                let parent = live.get(below % (live.len() + 1)).copied();
                self.tasks.push(Some(Task {
                    name: format!("task {}", self.tasks.len()),
                    parent,
                    status: TaskStatus::Pending,
                    description: None,
                    output: None,
                    dependencies: BTreeSet::new(),
                }));
            }
            Change::Delete { which } => {
                let Some(which) = self.pick(which) else {
                    return;
                };
                // With everything below it.
                let gone: Vec<usize> = self
                    .live()
                    .into_iter()
                    .filter(|index| self.is_below(*index, which))
                    .collect();
                for index in &gone {
                    self.tasks[*index] = None;
                }
                for task in self.tasks.iter_mut().flatten() {
                    task.dependencies.retain(|on| !gone.contains(on));
                }
            }
            Change::Status { which, status } => {
                if let Some(which) = self.pick(which) {
                    self.task(which).status = TaskStatus::ALL[status];
                }
            }
            Change::Move { which, below } => {
                let Some(which) = self.pick(which) else {
                    return;
                };
                let live = self.live();
                let parent = live.get(below % (live.len() + 1)).copied();
                if parent.is_none_or(|parent| !self.is_below(parent, which)) {
                    self.task(which).parent = parent;
                }
            }
            Change::Describe { which, text } => {
                if let Some(which) = self.pick(which) {
                    self.task(which).description = (text > 0).then(|| format!("text {text}"));
                }
            }
            Change::Output { which, text } => {
                if let Some(which) = self.pick(which) {
                    self.task(which).output = (text > 0).then(|| format!("text {text}"));
                }
            }
            Change::Depend { which, on } => {
                let (Some(which), Some(on)) = (self.pick(which), self.pick(on)) else {
                    return;
                };
                // Only on earlier ones: so there is never a circle.
                if on < which && !self.task(which).dependencies.remove(&on) {
                    self.task(which).dependencies.insert(on);
                }
            }
            Change::Rename { which } => {
                if let Some(which) = self.pick(which) {
                    self.task(which).name.push('\'');
                }
            }
        }
    }

    fn tree(&self) -> PlanTree {
        PlanTree {
            core_goal: "goal".into(),
            tree_nodes: self.nodes(None).unwrap_or_default(),
            ..PlanTree::default()
        }
    }

    fn nodes(&self, parent: Option<usize>) -> Option<Vec<PlanNode>> {
        let name = |index: &usize| self.tasks[*index].as_ref().unwrap().name.clone();
        let nodes: Vec<PlanNode> = self
            .live()
            .into_iter()
            .map(|index| (index, self.tasks[index].as_ref().unwrap()))
            .filter(|(_, task)| task.parent == parent)
            .map(|(index, task)| PlanNode {
                task_id: Some(format!("T{index}")),
                task_name: task.name.clone(),
                description: task.description.clone(),
                status: task.status,
                output: task.output.clone(),
                dependencies: Some(task.dependencies.iter().map(name).collect()),
                children: self.nodes(Some(index)),
                ..PlanNode::default()
            })
            .collect();
        (!nodes.is_empty()).then_some(nodes)
    }

    /// What the diff must say, found by comparing the two lists.
    fn expected(&self, new: &Model) -> PlanDiff {
        let (empty, mut diff) = (None, PlanDiff::default());
        let at = |model: &Model, index: usize| model.tasks.get(index).unwrap_or(&empty).clone();
        let name = |model: &Model, index: Option<usize>| Some(at(model, index?)?.name);
        for index in 0..new.tasks.len() {
            let (was, is) = match (at(self, index), at(new, index)) {
                (None, Some(is)) => {
                    diff.added.push(is.name);
                    continue;
                }
                (Some(was), None) => {
                    diff.deleted.push(was.name);
                    continue;
                }
                (None, None) => continue,
                (Some(was), Some(is)) => (was, is),
            };
            if was.status != is.status {
                diff.status.push(StatusChange {
                    task: is.name.clone(),
                    old: was.status,
                    new: is.status,
                });
            }
            if was.parent != is.parent {
                diff.moved.push(Move {
                    task: is.name.clone(),
                    old: name(self, was.parent),
                    new: name(new, is.parent),
                });
            }
            let names = |model: &Model, task: &Task| -> BTreeSet<Option<String>> {
                task.dependencies
                    .iter()
                    .map(|on| name(model, Some(*on)))
                    .collect()
            };
            let fields = [
                ("task_name", was.name != is.name),
                ("description", was.description != is.description),
                ("output", was.output != is.output),
                ("dependencies", names(self, &was) != names(new, &is)),
            ];
            let fields: Vec<&'static str> = fields
                .into_iter()
                .filter_map(|(field, differs)| differs.then_some(field))
                .collect();
            if !fields.is_empty() {
                diff.edited.push(Edit {
                    task: is.name,
                    fields,
                });
            }
        }
        diff
    }
}

/// The same whatever the order.
fn sorted(mut diff: PlanDiff) -> PlanDiff {
    diff.added.sort();
    diff.deleted.sort();
    diff.status.sort_by(|a, b| a.task.cmp(&b.task));
    diff.moved.sort_by(|a, b| a.task.cmp(&b.task));
    diff.edited.sort_by(|a, b| a.task.cmp(&b.task));
    diff
}

proptest! {
    #[test]
    fn the_diff_names_exactly_the_edits(
        first in proptest::collection::vec(change(), 0..40),
        second in proptest::collection::vec(change(), 0..20),
    ) {
        let mut old = Model { tasks: Vec::new() };
        first.iter().for_each(|change| old.apply(change));
        let mut new = old.clone();
        second.iter().for_each(|change| new.apply(change));
        let mut book = PlanHistory::default();
        prop_assert!(book.update(old.tree(), Locale::En).unwrap().diff.created);
        let update = book.update(new.tree(), Locale::En).unwrap();
        prop_assert_eq!(sorted(update.diff.clone()), sorted(old.expected(&new)));
        prop_assert_eq!(update.diff.is_empty(), update.text.contains("ℹ️ No change"));
        prop_assert!(update.text.chars().count() <= 8_000);
        // The counts are those of the tasks that there are.
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for task in new.tasks.iter().flatten() {
            *counts.entry(task.status.key()).or_default() += 1;
        }
        for status in TaskStatus::ALL {
            prop_assert_eq!(update.statistics.count(status), counts.get(status.key()).copied().unwrap_or(0));
        }
    }

    #[test]
    fn a_tree_that_is_sent_again_without_ids_is_the_same(changes in proptest::collection::vec(change(), 0..40)) {
        let mut model = Model { tasks: Vec::new() };
        changes.iter().for_each(|change| model.apply(change));
        let mut book = PlanHistory::default();
        book.update(model.tree(), Locale::En).unwrap();
        let mut bare = model.tree();
        fn strip(nodes: &mut [PlanNode]) {
            for node in nodes {
                node.task_id = None;
                strip(node.children.as_deref_mut().unwrap_or_default());
            }
        }
        strip(&mut bare.tree_nodes);
        prop_assert!(book.update(bare, Locale::En).unwrap().diff.is_empty());
    }
}

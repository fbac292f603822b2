//! A tree as a list, made without recursion: whatever the shape, the stack is safe.

use super::{PlanNode, PlanTree};

/// A task in its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed<'a> {
    pub(super) node: &'a PlanNode,
    /// How many tasks are above it.
    pub(super) level: usize,
    /// The task above it: an index into the same list.
    pub(super) parent: Option<usize>,
}

impl<'a> Placed<'a> {
    /// Every task has one, once the tree is in the book.
    pub(super) fn id(&self) -> &'a str {
        self.node.task_id.as_deref().unwrap_or_default()
    }

    pub(super) fn name(&self) -> &'a str {
        &self.node.task_name
    }
}

/// Every task, each before its subtasks, in the order of the tree.
pub(super) fn flat(tree: &PlanTree) -> Vec<Placed<'_>> {
    let mut placed = Vec::new();
    let mut open: Vec<(&PlanNode, usize, Option<usize>)> = tree
        .tree_nodes
        .iter()
        .rev()
        .map(|node| (node, 0, None))
        .collect();
    while let Some((node, level, parent)) = open.pop() {
        let index = placed.len();
        placed.push(Placed {
            node,
            level,
            parent,
        });
        let children = node.children.iter().flatten().rev();
        open.extend(children.map(|child| (child, level + 1, Some(index))));
    }
    placed
}

/// The same for a tree that is to be changed: calls `change` with each task.
pub(super) fn each_mut(tree: &mut PlanTree, mut change: impl FnMut(&mut PlanNode)) {
    let mut open: Vec<&mut PlanNode> = tree.tree_nodes.iter_mut().rev().collect();
    while let Some(node) = open.pop() {
        change(node);
        open.extend(node.children.iter_mut().flatten().rev());
    }
}

//! The corpus: each snippet is a Python file of its own, and all of them are in this binary.

/// One way out that was thought of.
pub(crate) struct Snippet {
    pub(crate) family: &'static str,
    pub(crate) name: &'static str,
    pub(crate) code: &'static str,
}

impl Snippet {
    /// What it is after, from its first line.
    pub(crate) fn canary(&self) -> &'static str {
        self.note("canary")
            .expect("every snippet says what it is after")
    }

    /// A line of the form `# word: text` at the top of the file.
    pub(crate) fn note(&self, word: &str) -> Option<&'static str> {
        let comments = self.code.lines().map_while(|line| line.strip_prefix("# "));
        comments
            .filter_map(|line| line.split_once(": "))
            .find_map(|(found, text)| (found == word).then_some(text))
    }
}

impl std::fmt::Display for Snippet {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}/{}", self.family, self.name)
    }
}

macro_rules! corpus {
    ($($family:ident: $($name:ident),+;)+) => {
        &[$($(Snippet {
            family: stringify!($family),
            name: stringify!($name),
            code: include_str!(concat!(stringify!($family), "/", stringify!($name), ".py")),
        }),+),+]
    };
}

pub(crate) static CORPUS: &[Snippet] = corpus! {
    devices:
        kernel_log, kernel_log_by_call, made_by_ourselves, terminal;
    environment:
        descriptor_of_the_host, every_descriptor, inherited_descriptor, own_memory, variable,
        variable_of_a_child, variable_of_our_parent, variable_of_the_first_start;
    files:
        a_database, a_shell, absolute_path, another_program, attribute_listed, attribute_read,
        attribute_written, attribute_written_through_a_descriptor, by_handle, imported,
        left_in_shared_memory, left_in_the_common_directory, linked_into_the_workspace,
        listed_directory, machine_code_of_another_architecture, mapped, name_overheard, openat2,
        owner_changed, permissions_changed, permissions_changed_from_a_directory,
        permissions_changed_through_a_descriptor, permissions_changed_through_a_link,
        raw_system_call, relative_path, renamed_outside, sent_by_the_kernel,
        through_a_directory_descriptor, times_changed, times_changed_through_a_descriptor,
        written_by_a_child, written_outside;
    ipc:
        mailbox, mailbox_removed, queue, queue_removed, segment, segment_by_key, shared_file;
    keyrings:
        listed, requested, searched;
    mounts:
        copied_tree, layered, new_root;
    namespaces:
        by_a_program, changed_root_and_climbed, cloned, cloned_by_a_structure, entered_mounts,
        entered_network, entered_through_a_process, own_user_namespace;
    neighbours:
        abstract_socket, process, service, shared_memory, temporary_file, workspace,
        workspace_closed, workspaces_beside_ours;
    network:
        a_web_page, asked_in, by_a_shell, datagrams, loopback, loopback_of_version_6,
        raw_system_calls, seen_in_tables;
    proc:
        arguments, environment, host_s_environment, host_s_memory, host_s_root, memory,
        open_file, out_of_memory_score, own_root, parent_s_root, working_directory;
    ptrace:
        killed_with_its_tracer, peeked, read_across, seized, stolen_descriptor;
    signals:
        by_a_shell, group_killed, killed, queued, raised_by_a_socket,
        raised_by_a_socket_of_a_device_call, raised_by_a_socket_of_a_structure,
        starved_of_files, thread_killed, thread_of_group_killed, through_a_descriptor,
        through_its_directory;
    sockets:
        abstract, abstract_datagrams, datagrams_in_a_directory, datagrams_of_a_pair, handed_out_descriptor,
        in_a_directory, in_a_directory_through_a_link;
    symlinks:
        in_a_chain, to_the_directory, to_the_file, to_the_root, written_through;
};

#[test]
fn no_snippet_is_forgotten() {
    let Ok(root) = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/escape")) else {
        // The binary runs far from its sources.
        return;
    };
    let mut on_disk: Vec<String> = Vec::new();
    for family in root
        .flatten()
        .filter(|entry| entry.path().is_dir() && entry.file_name() != "forged_frames")
    {
        for file in family.path().read_dir().unwrap().flatten() {
            let path = format!(
                "{}/{}",
                family.file_name().display(),
                file.file_name().display()
            );
            on_disk.extend(path.strip_suffix(".py").map(str::to_owned));
        }
    }
    let mut listed: Vec<String> = CORPUS.iter().map(Snippet::to_string).collect();
    on_disk.sort();
    listed.sort();
    assert_eq!(listed, on_disk);
}

//! What a client's model is told before it calls anything.

/// For a model that has never seen this server.
pub(super) const INSTRUCTIONS: &str = "\
This server is a Python interpreter for you: real CPython in a sealed sandbox that remembers everything between calls.

- Run code with execute_python_code. Variables, imports, functions and open files of one call are there in the next; do not repeat earlier \
code. Print what you want to see, or make it the last expression; plt.show() returns the picture.
- Nothing can be broken. If code crashes or runs out of time or memory, the session is as it was before that call. undo takes \
further calls back, checkpoints says how far.
- For one exact value (arithmetic, letters of a word, dates, sorting) compute is enough.
- variables lists what is defined. list_files and file_reader look at the workspace, write_file puts a file there. Files that code writes \
to its working directory are also resources of this server.
- To try something without risk, or two ways from the same point, call fork: you get a second session with the same variables and \
files, and pass its name as `session` to the other tools.
- There is no network inside. Other tools of this server, where there are any, can also be called from your code as functions with keyword \
arguments: see help(tools). One cell that calls, filters and prints the few lines you need saves many separate calls.
- recursive_plan_tree_todo keeps a plan for long work.";

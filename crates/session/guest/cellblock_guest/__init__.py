"""The guest of a Cellblock session: the Python that runs beside the user's code.

`head.Head` is the loop of a live session. It reads a frame, does what it asks (`execute` for cells, `compute` for
expressions, `variables` and `inspection` for looking around), and answers.

Two customs hold in every module:

- Everything here shares a process with code that may rebind, delete or patch anything. So each module keeps private
  references to what it needs.
- Nothing heavy is imported at module level, not even `typing`, `re` or `json`: `cellblock exec` starts a Python each time.
  Imports for annotations stand under `TYPE_CHECKING = False`, which type checkers read as true.
"""

import builtins

# `builtins.len = None` in a cell must not break this package. A function finds its builtins where `__builtins__` of its
# module pointed when the function was defined, so every module here imports this copy under that name.
BUILTINS = dict(vars(builtins))

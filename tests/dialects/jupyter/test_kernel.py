"""jupyter_kernel_test, whole."""

import unittest

from jupyter_kernel_test import IopubWelcomeTests, KernelTests

KernelTests.__test__ = False
IopubWelcomeTests.__test__ = False


class TestKernel(KernelTests):
    __test__ = True
    kernel_name = "cellblock"
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('oh no', file=sys.stderr)"
    completion_samples = [{"text": "zi", "matches": {"zip"}}]
    complete_code_samples = ["1", "print('hello, world')", "def f(x):\n  return x*2\n\n\n"]
    incomplete_code_samples = ["print('''hello", "def f(x):\n  x*2"]
    invalid_code_samples = ["import = 7q"]
    code_page_something = "zip?"
    code_generate_error = "raise"
    code_execute_result = [{"code": "1+2+3", "result": "6"}, {"code": "[n*n for n in range(1, 4)]", "result": "[1, 4, 9]"}]
    code_display_data = [
        {"code": "from IPython.display import HTML, display; display(HTML('<b>test</b>'))", "mime": "text/html"},
        {"code": "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()", "mime": "image/png"},
    ]
    code_history_pattern = "1?2*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"


class TestWelcome(IopubWelcomeTests):
    __test__ = True
    kernel_name = "cellblock"
    support_iopub_welcome = True


if __name__ == "__main__":
    unittest.main()

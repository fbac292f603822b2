"""What the wheel brings beside the package: the program and the kernel for notebooks."""

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import distribution, files
from pathlib import Path

import pytest

import cellblock


def kernelspec_of_wheel():
    found = [path for path in files("cellblock") or [] if str(path).endswith("share/jupyter/kernels/cellblock/kernel.json")]
    if not found:
        pytest.skip("this wheel has no binary, so no kernel")
    return Path(str(found[0].locate()))


def test_the_kernelspec_is_the_one_that_the_program_installs(tmp_path):
    place = kernelspec_of_wheel()
    spec = json.loads(place.read_text())
    program = cellblock.Host().binary()
    command = [program, "jupyter", "install", "--no-packages", "--prefix", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    [installed] = tmp_path.rglob("kernel.json")
    made = json.loads(installed.read_text())
    assert made.pop("argv")[1:] == spec["argv"][3:]
    # Jupyter puts its own interpreter in the place of this word.
    assert spec.pop("argv")[:3] == ["python", "-m", "cellblock"]
    assert spec == made
    assert place.is_relative_to(sys.prefix)


def test_the_program_is_a_command_of_the_environment():
    kernelspec_of_wheel()
    environment = {**os.environ, "PATH": str(Path(sys.executable).parent)}
    assert shutil.which("cellblock", path=environment["PATH"])
    for command in (["cellblock"], [sys.executable, "-m", "cellblock"]):
        said = subprocess.run([*command, "--version"], env=environment, check=True, capture_output=True, text=True)
        assert said.stdout.split()[-1] == cellblock.__version__


def test_the_wheel_is_typed_and_needs_nothing():
    needed = [line for line in distribution("cellblock").requires or [] if "extra ==" not in line]
    assert needed == []
    assert (Path(cellblock.__file__).parent / "py.typed").exists()

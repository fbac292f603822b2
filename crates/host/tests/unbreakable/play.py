"""Changes a workspace at random: files, directories, links of both kinds, names that move and change places."""

import ctypes
import os
import random
import shutil

libc = ctypes.CDLL(None, use_errno=True)
RENAME_EXCHANGE = 2


def path(dice):
    return "/".join(dice.choice("abc") for _ in range(dice.randint(1, 3)))


def write(name, mode, text):
    with open(name, mode) as file:
        file.write(text)


def replace(name, text):
    write(name + ".new", "w", text)
    os.replace(name + ".new", name)


def mark(name, mode):
    if not os.path.isdir(name) and not os.path.islink(name):
        os.chmod(name, mode)


def play(seed, outside):
    """A few steps. What is not possible where things stand is left out."""
    dice = random.Random(seed)
    for _ in range(dice.randint(1, 10)):
        one, two = path(dice), path(dice)
        text = f"{dice.random()}" * dice.choice([0, 1, 300])
        targets = [two, "../" + two, "canary", "../canary", "../../canary/deep", ".", "..", outside]
        target = dice.choice(targets)
        steps = [
            lambda: os.makedirs(one),
            lambda: os.makedirs(one),
            lambda: write(one, "w", text),
            lambda: write(one, "w", text),
            lambda: write(one, "a", text),
            lambda: replace(one, text),
            lambda: os.truncate(one, 1),
            lambda: os.remove(one),
            lambda: shutil.rmtree(one),
            lambda: os.symlink(target, one),
            lambda: os.symlink(target, one),
            lambda: os.link(one, two, follow_symlinks=False),
            lambda: os.rename(one, two),
            lambda: os.rename(one, two),
            lambda: libc.renameat2(-100, one.encode(), -100, two.encode(), RENAME_EXCHANGE),
            lambda: mark(one, dice.choice([0o600, 0o444, 0o755])),
        ]
        try:
            dice.choice(steps)()
        except OSError:
            pass

"""Compiles byte code on all cores: compile.py DIRECTORY PREFIX FINAL_PREFIX. Prints `done/total` lines."""

import compileall
import functools
import multiprocessing
import os
import py_compile
import sys
from concurrent.futures import ProcessPoolExecutor

STEP = 50
MODE = py_compile.PycInvalidationMode.UNCHECKED_HASH


def sources(directory):
    for folder, folders, files in os.walk(directory):
        folders[:] = [name for name in folders if name not in ("tests", "__pycache__")]
        yield from (os.path.join(folder, name) for name in files if name.endswith(".py"))


def outcomes(compile_one, paths):
    try:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        pool = ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("fork"))
    except (ImportError, NotImplementedError, OSError, ValueError):  # no semaphores on this machine
        return map(compile_one, paths)
    return pool.map(compile_one, paths, chunksize=16)


def main(directory, prefix, final_prefix):
    paths = sorted(sources(directory))
    compile_one = functools.partial(
        compileall.compile_file,
        force=True,
        quiet=2,
        invalidation_mode=MODE,
        stripdir=prefix,
        prependdir=final_prefix,
    )
    failed = []
    for done, (path, fine) in enumerate(zip(paths, outcomes(compile_one, paths)), start=1):
        if not fine:
            failed.append(path)
        if done % STEP == 0 or done == len(paths):
            print(f"{done}/{len(paths)}", flush=True)

    for path in failed:
        try:
            py_compile.compile(path, doraise=True, invalidation_mode=MODE)
        except py_compile.PyCompileError:
            pass  # packages ship files that are no Python of this version
        # an OSError (a full disk) ends the whole with its traceback


main(*sys.argv[1:])

"""Describes the Python that runs it: one line of JSON, then a line for each package."""

import importlib.metadata
import json
import os
import platform
import sysconfig

libc, _ = platform.libc_ver()
print(
    json.dumps(
        {
            "version": ".".join(platform.python_version_tuple()),
            "machine": os.uname().machine,
            "libc": "glibc" if libc == "glibc" else "musl",
            "soabi": sysconfig.get_config_var("SOABI") or "",
        }
    )
)
for package in importlib.metadata.distributions():
    name, version = package.metadata["Name"], package.version
    if name and version:
        print(f"{name}=={version}")

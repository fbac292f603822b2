"""The version of the package, which is also that of the binary it needs."""

__version__ = "0.1.0"

"""The version of the package, which files and emitted backends name. Imports nothing."""

__version__ = "0.1.0"

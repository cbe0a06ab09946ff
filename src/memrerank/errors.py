"""Errors that a user can act on.

The entry points print the message of a `MemrerankError` without a traceback, so each message
must name the file, line or setting at fault, its value, and what to change.
"""


class MemrerankError(Exception):
    """Something that the user can fix: a setting, a file, a missing earlier step."""


class ConfigError(MemrerankError):
    """A setting has a value that cannot work; the message names the setting."""


class DataError(MemrerankError):
    """A file is missing, empty or malformed; the message names the file and, if any, the line."""


class JudgeError(MemrerankError):
    """The reranker cannot answer: a missing recording, a refused key, too many failed calls."""

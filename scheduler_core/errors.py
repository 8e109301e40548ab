"""Errors that a user can cause: each message names the value, the bound and the remedy."""


class TickscopeError(Exception):
    """The base of every error whose message is meant for a user."""


class ConfigError(TickscopeError):
    """An impossible configuration, or a change that a run in progress cannot take."""


class RequestError(TickscopeError):
    """A request that cannot be accepted."""


class WorkloadError(TickscopeError):
    """A scenario or workload that cannot be read."""


class TraceError(TickscopeError):
    """A recorded run that is damaged, foreign or from another version."""


class ModelError(TickscopeError):
    """Weights that are missing, damaged or of an unsupported kind."""


class BenchError(TickscopeError):
    """A benchmark that cannot be run as asked."""


class LessonError(TickscopeError):
    """A lesson that cannot be read, or names what its run does not have."""


class GlossaryError(TickscopeError):
    """A glossary that cannot be read, or in which two terms claim the same word."""

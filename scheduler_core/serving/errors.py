"""How a request can end other than asked for, each with what the client is told."""

from __future__ import annotations

from scheduler_core.errors import TickscopeError


class ServingError(TickscopeError):
    """A request that was not answered. `status`, `kind` and `code` are those of OpenAI's error bodies."""

    status = 500
    kind = "server_error"
    code: str | None = None
    retry_after_s: int | None = None


class NeverFits(ServingError):
    """A request that could not run even alone: sending it again is no use."""

    status = 400
    kind = "invalid_request_error"
    code = "context_length_exceeded"


class QueueFull(ServingError):
    """Refused for now: so many wait already that one more would only wait longer."""

    status = 429
    kind = "rate_limit_error"
    code = "queue_full"

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ShuttingDown(ServingError):
    """The server ends and takes nothing new, or could not wait for this request any longer."""

    status = 503
    code = "shutting_down"
    retry_after_s = 5


class DeadlineExceeded(ServingError):
    """The request took longer than it may."""

    status = 504
    kind = "timeout_error"
    code = "deadline_exceeded"


class Aborted(ServingError):
    """Ended on the client's behalf; nobody is there to read this."""

    status = 499
    code = "aborted"


class AttemptFailed(ServingError):
    """One call of the model that failed; another may succeed."""


class GaveUp(ServingError):
    """Every attempt failed, the last one for `reason`; the request is kept in the dead letters, under `letter_id` if it
    could be written.
    """

    code = "model_failed"

    def __init__(self, message: str, letter_id: str | None, reason: str = "") -> None:
        super().__init__(message)
        self.letter_id = letter_id
        self.reason = reason

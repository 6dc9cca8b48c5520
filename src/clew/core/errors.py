"""The tree of errors that Clew raises on purpose.

    ClewError
    ├── ConfigError              the user must change something
    │   ├── UnknownModel         no provider has a model of that name
    │   ├── MissingExtra         a part of Clew is not installed (has `extra`)
    │   └── ModelFileDamaged     a downloaded model file is damaged
    ├── ProviderError            a model call failed
    │   ├── ProviderBusy         try again later (has `retry_after`)
    │   ├── ProviderRejected     the request is wrong; never retried
    │   │   ├── SignatureRejected the provider rejected signed thinking
    │   │   └── ReplayDiverged   a request differs from the recorded one
    │   ├── ProviderDenied       the key is missing, wrong or out of credit
    │   ├── ProviderTimeout      the answer made no progress for too long
    │   ├── StreamBroken         the answer ended early
    │   ├── ResponseTooLarge     the provider sent more than any answer needs
    │   └── ContextOverflow      the request is too long; compact, then retry
    ├── ContextError             the conversation does not fit (has `state`)
    │   ├── ContextFull          above the hard limit; nothing was sent
    │   ├── ContextThrashing     compactions free too little for the run to continue
    │   └── NothingToDrop        no cut keeps the conversation valid
    ├── StoreError               the journal could not be read or written
    │   ├── StoreUnavailable     the store cannot be opened or written
    │   ├── StoreDamaged         stored data cannot be read
    │   ├── SessionNotFound      no such session
    │   └── SessionBusy          another process writes to this session
    ├── AccessError              a server refused a request
    │   ├── NotAuthenticated     the token is missing, wrong or out of date
    │   ├── AccessDenied         this client must not send this request
    │   ├── RequestTooLarge      the body is larger than the server accepts
    │   ├── BodyBroken           the body ended early, or is compressed
    │   ├── RequestTooSlow       the body did not arrive in time
    │   ├── RateLimited          too many requests (has `retry_after`)
    │   └── ServerBusy           the server is full (has `retry_after`)
    └── SessionError             the session cannot do this now
        ├── AlreadyRunning       one run at a time
        ├── QueueFull            a prompt is waiting already; only one can
        ├── PromptCancelled      a waiting prompt was cancelled
        ├── SessionClosed        the session was shut down
        ├── UnknownCommand       no command has that name
        ├── EventsExpired        the event buffer does not reach back that far
        ├── RunError             a run that a client waited for failed (has `error_type`)
        ├── NothingToUndo        no compaction or clear is left to undo
        ├── TurnLimitReached     the run made `max_turns` model calls
        ├── AnswerRejected       the answer does not satisfy the schema (has `errors`)
        ├── BudgetReached        the session has reached its cost limit
        ├── PromptBlocked        a hook blocked a prompt
        ├── RunStopped           a hook stopped the run
        ├── LoopDetected         the model repeated the same call
        ├── AbortError           the run was aborted; partial output is kept
        └── BackgroundTaskError  a background task failed (has `category`)
            └── TaskNotFound     no task or group has that id

A failing tool does not raise: its failure is a `ToolResult` that the model reads.
Cancellation is never wrapped.
"""

from clew.core.context_state import ContextState
from clew.core.tasks import TaskErrorCategory, TimeoutReason


class ClewError(Exception):
    """Root of the tree. The text of every error can be shown to a user."""


class ConfigError(ClewError):
    """The user must change something."""


class UnknownModel(ConfigError):
    """No provider has a model of that name."""


class MissingExtra(ConfigError):
    """An optional part of Clew is not installed."""

    def __init__(self, message: str, *, extra: str) -> None:
        super().__init__(f"{message} Install it with: pip install 'clew[{extra}]'")
        self.extra = extra


class ModelFileDamaged(ConfigError):
    """A downloaded model file is damaged."""


class ProviderError(ClewError):
    """A model call failed."""

    def __init__(self, message: str, *, provider: str, status: int | None = None) -> None:
        super().__init__(message)
        self.provider = provider
        self.status = status


class ProviderBusy(ProviderError):
    """The provider asks to retry later."""

    def __init__(
        self,
        message: str,
        *,
        provider: str,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, provider=provider, status=status)
        self.retry_after = retry_after


class ProviderRejected(ProviderError):
    """The request is wrong; sending it again would not help."""


class SignatureRejected(ProviderRejected):
    """The provider rejected signed thinking from an earlier answer."""


class ProviderDenied(ProviderError):
    """The key is missing, wrong or out of credit."""


class ProviderTimeout(ProviderError):
    """The provider sent nothing, or no part of the answer, for too long."""


class StreamBroken(ProviderError):
    """The answer ended before it was complete."""


class ResponseTooLarge(ProviderError):
    """The provider sent more than any answer needs; reading was stopped."""


class ContextOverflow(ProviderError):
    """The provider says the request is too long for the model."""

    def __init__(
        self,
        message: str,
        *,
        provider: str,
        status: int | None = None,
        limit: int | None = None,
        is_account_limit: bool = False,
    ) -> None:
        super().__init__(message, provider=provider, status=status)
        self.limit = limit
        """Tokens that the model accepts, if the provider reported the number."""
        self.is_account_limit = is_account_limit
        """True if `limit` is what the account may send in a minute, not the model's window."""


class ContextError(ClewError):
    """The conversation does not fit into the window."""

    def __init__(self, message: str, *, state: ContextState) -> None:
        super().__init__(message)
        self.state = state


class ContextFull(ContextError):
    """The view is above the hard limit; nothing was sent."""


class ContextThrashing(ContextError):
    """The window is full again after each compaction; the run was stopped."""


class NothingToDrop(ContextError):
    """The view is too long, and no cut keeps it valid."""


class StoreError(ClewError):
    """The journal could not be read or written."""


class StoreUnavailable(StoreError):
    """The store cannot be opened or written."""


class StoreDamaged(StoreError):
    """Stored data cannot be read."""


class SessionNotFound(StoreError):
    """There is no such session."""


class SessionBusy(StoreError):
    """Another process writes to this session."""


class AccessError(ClewError):
    """A server refused a request; nothing was done."""


class NotAuthenticated(AccessError):
    """The token or the cookie is missing, wrong or out of date."""


class AccessDenied(AccessError):
    """The server knows the client, or need not know it, and refuses what it asks."""


class RequestTooLarge(AccessError):
    """The body of a request is larger than the server accepts."""


class BodyBroken(AccessError):
    """The body of a request ended early, or is compressed."""


class RequestTooSlow(AccessError):
    """The body of a request did not arrive in time."""


class RateLimited(AccessError):
    """The client sent too many requests, or has too many streams open."""

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds after which the request may succeed."""


class ServerBusy(AccessError):
    """The server has as much to do as it can do."""

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds after which the request may succeed."""


class SessionError(ClewError):
    """The session cannot do this now."""


class AlreadyRunning(SessionError):
    """A run is in progress."""


class QueueFull(SessionError):
    """A prompt is waiting already; only one can wait."""


class PromptCancelled(SessionError):
    """A waiting prompt was cancelled; it was never sent."""


class SessionClosed(SessionError):
    """The session was shut down and accepts no more prompts."""


class ServerUnreachable(SessionError):
    """A server of sessions does not answer, or something else answers at its address."""


class UnknownCommand(SessionError):
    """No command has that name."""


class EventsExpired(SessionError):
    """The event buffer does not reach back that far; take a new snapshot."""


class RunError(SessionError):
    """A run that a client waited for failed."""

    def __init__(self, message: str, *, error_type: str) -> None:
        super().__init__(message)
        self.error_type = error_type


class NothingToUndo(SessionError):
    """No compaction or clear is left to undo."""


class AnswerRejected(SessionError):
    """The answer does not satisfy the schema, even after corrections."""

    def __init__(self, message: str, *, errors: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.errors = errors


class TurnLimitReached(SessionError):
    """The run made `max_turns` model calls; the next prompt continues from there."""


class BudgetReached(SessionError):
    """The session has reached its cost limit; the model was not called again."""


class PromptBlocked(SessionError):
    """A hook blocked a prompt; the conversation is unchanged."""


class RunStopped(SessionError):
    """A hook stopped the run; the history contains everything up to that point."""


class LoopDetected(SessionError):
    """The model repeated the same call with the same result."""


class AbortError(SessionError):
    """The run was aborted; the history contains the partial answer."""


class BackgroundTaskError(SessionError):
    """A background task failed, or cannot do what was asked of it."""

    def __init__(
        self,
        message: str,
        *,
        category: TaskErrorCategory,
        recoverable: bool = False,
        timeout_reason: TimeoutReason | None = None,
        partial: str = "",
    ) -> None:
        super().__init__(message)
        self.category = category
        self.recoverable = recoverable
        """True if the same request may succeed later."""
        self.timeout_reason = timeout_reason
        self.partial = partial
        """What there was of the result."""


class TaskNotFound(BackgroundTaskError):
    """No task, or no group of tasks, has that id."""

    def __init__(self, message: str) -> None:
        super().__init__(message, category=TaskErrorCategory.VALIDATION)

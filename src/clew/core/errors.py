"""Every error this package raises on purpose.

    ClewError
    ├── ConfigError              the user must change something
    │   ├── UnknownModel         no provider answers to that name
    │   ├── MissingExtra         a part of Clew is not installed (has `extra`)
    │   └── ModelFileDamaged     a downloaded model is not what it should be
    ├── ProviderError            a model call failed
    │   ├── ProviderBusy         try again later (has `retry_after`)
    │   ├── ProviderRejected     the request is wrong; never retried
    │   │   ├── SignatureRejected thinking that was sent back is not accepted
    │   │   └── ReplayDiverged   a request is not the one that was recorded
    │   ├── ProviderDenied       the key is missing, wrong or out of credit
    │   ├── ProviderTimeout      no sign of life for too long
    │   ├── StreamBroken         the answer stopped before its end
    │   └── ContextOverflow      the request is too long; compact, then retry
    ├── ContextError             the conversation does not fit (has `state`)
    │   ├── ContextFull          above the hard limit; nothing was sent
    │   └── NothingToDrop        no cut keeps the conversation valid
    ├── StoreError               the journal could not be read or written
    │   ├── StoreUnavailable     the place cannot be opened or written to
    │   ├── StoreDamaged         what is stored cannot be read
    │   ├── SessionNotFound      no such session
    │   └── SessionBusy          another process writes to this session
    └── SessionError             the session was asked for something it cannot do now
        ├── AlreadyRunning       one run at a time
        ├── QueueFull            a prompt waits already, and only one can
        ├── PromptCancelled      a prompt was taken back before its turn came
        ├── SessionClosed        the session was shut down
        ├── NothingToUndo        no compaction or clear is left to take back
        ├── TurnLimitReached     `max_turns` model calls were made
        ├── BudgetReached        the session has cost as much as it may
        ├── PromptBlocked        a hook did not let a prompt pass
        ├── RunStopped           a hook ended the run
        ├── LoopDetected         the model went on making the same call
        └── AbortError           the run was aborted; what had arrived is kept

A tool that fails does not raise: its failure is a `ToolResult` the model reads.
Cancellation is never wrapped.
"""

from clew.core.context_state import ContextState


class ClewError(Exception):
    """Root of the tree; its text is fit to be shown to a person."""


class ConfigError(ClewError):
    """The user must change something."""


class UnknownModel(ConfigError):
    """No provider answers to that name."""


class MissingExtra(ConfigError):
    """A part of Clew that this needs is not installed."""

    def __init__(self, message: str, *, extra: str) -> None:
        super().__init__(f"{message} Install it with: pip install 'clew[{extra}]'")
        self.extra = extra


class ModelFileDamaged(ConfigError):
    """A downloaded model is not what it should be."""


class ProviderError(ClewError):
    """A model call failed."""

    def __init__(self, message: str, *, provider: str, status: int | None = None) -> None:
        super().__init__(message)
        self.provider = provider
        self.status = status


class ProviderBusy(ProviderError):
    """The provider asked us to come back later."""

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
    """The provider does not accept thinking that it was sent back."""


class ProviderDenied(ProviderError):
    """The key is missing, wrong or out of credit."""


class ProviderTimeout(ProviderError):
    """No sign of life for longer than the idle timeout."""


class StreamBroken(ProviderError):
    """The answer stopped before its end."""


class ContextOverflow(ProviderError):
    """The provider says the request is too long for the model."""

    def __init__(
        self, message: str, *, provider: str, status: int | None = None, limit: int | None = None
    ) -> None:
        super().__init__(message, provider=provider, status=status)
        self.limit = limit
        """Tokens that the model can take, where the provider says so."""


class ContextError(ClewError):
    """The conversation does not fit into the window."""

    def __init__(self, message: str, *, state: ContextState) -> None:
        super().__init__(message)
        self.state = state


class ContextFull(ContextError):
    """The view is above the hard limit; nothing was sent."""


class NothingToDrop(ContextError):
    """The view is too long and no cut keeps it valid."""


class StoreError(ClewError):
    """The journal could not be read or written."""


class StoreUnavailable(StoreError):
    """The place cannot be opened or written to."""


class StoreDamaged(StoreError):
    """What is stored cannot be read."""


class SessionNotFound(StoreError):
    """There is no such session."""


class SessionBusy(StoreError):
    """Another process writes to this session."""


class SessionError(ClewError):
    """The session was asked for something it cannot do now."""


class AlreadyRunning(SessionError):
    """A run is in progress."""


class QueueFull(SessionError):
    """A prompt waits already, and only one can."""


class PromptCancelled(SessionError):
    """A prompt was taken back before its turn came; it was never sent."""


class SessionClosed(SessionError):
    """The session was shut down and takes no more prompts."""


class NothingToUndo(SessionError):
    """No compaction or clear is left to take back."""


class TurnLimitReached(SessionError):
    """The run made as many model calls as `max_turns` allows."""


class BudgetReached(SessionError):
    """The session has cost as much as it may; the model was not called again."""


class PromptBlocked(SessionError):
    """A hook did not let a prompt pass; the conversation is as it was."""


class RunStopped(SessionError):
    """A hook ended the run; what was said until then is in the history."""


class LoopDetected(SessionError):
    """The model went on making the same call with the same answer."""


class AbortError(SessionError):
    """The run was aborted; what had arrived is in the history."""

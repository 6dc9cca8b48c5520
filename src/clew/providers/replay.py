"""A provider that replays a recording: a session runs again without network or cost."""

from collections.abc import AsyncGenerator

import anyio.lowlevel

from clew.core.errors import ProviderError, ProviderRejected
from clew.core.models import ModelFacts
from clew.providers.protocol import Chunk, Request
from clew.providers.recorded_calls import RecordedCall, Recording
from clew.providers.request_diff import Comparison, Difference, Redact


class ReplayDiverged(ProviderRejected):
    """A request differs from the recorded one."""

    def __init__(self, difference: Difference, *, provider: str) -> None:
        super().__init__(f"the request differs from the recording: {difference}", provider=provider)
        self.difference = difference


class ReplayProvider:
    """Answers the n-th request with the n-th recorded response.

    Each request is compared with the recorded one. In `strict` mode a different request is an
    error; otherwise the provider answers anyway and records the difference. Use one instance per
    session: the position in the recording is its state.
    """

    def __init__(
        self, recording: Recording, *, strict: bool = True, redact: Redact | None = None
    ) -> None:
        """Replay `recording`.

        Args:
            recording: A recording made from a log or a journal by `clew.sdk.replay_script`.
            strict: Raise `ReplayDiverged` at the first difference.
            redact: The redaction that was applied to the recording, to apply to requests before
                they are compared.
        """
        self._recording = recording
        self._strict = strict
        self._redact = redact
        self._comparison = Comparison(redact)
        self._next = 0
        self.differences: list[Difference] = []

    @property
    def name(self) -> str:
        """The provider that answered the current recorded call."""
        calls = self._recording.calls
        return calls[min(self._next, len(calls) - 1)].provider if calls else "replay"

    @property
    def difference(self) -> Difference | None:
        """The first difference so far."""
        return self.differences[0] if self.differences else None

    @property
    def calls_made(self) -> int:
        """How many calls were replayed."""
        return self._next

    @property
    def calls_left(self) -> int:
        """How many recorded calls remain."""
        return len(self._recording.calls) - self._next

    def facts(self, model: str) -> ModelFacts:
        """Return the recorded facts about `model`."""
        return self._recording.models.get(model) or ModelFacts(name=model)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Yield the next recorded response, or raise the recorded error."""
        call = self._take(request)
        for chunk in call.chunks:
            await anyio.lowlevel.checkpoint()
            yield chunk
        if call.error is not None:
            raise call.error

    async def aclose(self) -> None:
        """Do nothing: a recording holds no resources."""

    def _take(self, request: Request) -> RecordedCall:
        name, place = self.name, self._next
        if not self.calls_left:
            raise ProviderError(
                f"The recording has {place} calls; there is no call {place + 1}.", provider=name
            )
        call = self._recording.calls[place]
        self._next += 1
        if call.request is not None:
            comparison = self._comparison if call.is_turn else Comparison(self._redact)
            difference = comparison.compare(self._next, call.request, request)
            if difference is not None:
                self.differences.append(difference)
                if self._strict:
                    raise ReplayDiverged(difference, provider=name)
        return call

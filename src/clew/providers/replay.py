"""A provider that answers from a recording: a session runs again, with no network and no bill."""

from collections.abc import AsyncGenerator

import anyio.lowlevel

from clew.core.errors import ProviderError, ProviderRejected
from clew.core.models import ModelFacts
from clew.providers.protocol import Chunk, Request
from clew.providers.recorded_calls import RecordedCall, Recording
from clew.providers.request_diff import Comparison, Difference, Redact


class ReplayDiverged(ProviderRejected):
    """A request is not the one that was recorded."""

    def __init__(self, difference: Difference, *, provider: str) -> None:
        super().__init__(f"the replay departs from the recording: {difference}", provider=provider)
        self.difference = difference


class ReplayProvider:
    """Answers the n-th request as the n-th recorded call was answered.

    Each request is compared with the recorded one. A `strict` provider refuses a request that
    differs; a lenient one answers all the same, and remembers the first difference. For one
    session: the place in the recording is its state.
    """

    def __init__(
        self, recording: Recording, *, strict: bool = True, redact: Redact | None = None
    ) -> None:
        """Replay `recording`.

        Args:
            recording: Made from a log or a journal by `clew.sdk.replay_script`.
            strict: See the class.
            redact: What was done to the recording before it was written, done to requests too
                before they are compared.
        """
        self._recording = recording
        self._strict = strict
        self._redact = redact
        self._comparison = Comparison(redact)
        self._next = 0
        self.differences: list[Difference] = []

    @property
    def name(self) -> str:
        """The family that answered the call whose turn it is."""
        calls = self._recording.calls
        return calls[min(self._next, len(calls) - 1)].provider if calls else "replay"

    @property
    def difference(self) -> Difference | None:
        """The first difference so far."""
        return self.differences[0] if self.differences else None

    @property
    def calls_made(self) -> int:
        """How many calls were answered."""
        return self._next

    @property
    def calls_left(self) -> int:
        """How many recorded calls nobody asked for yet."""
        return len(self._recording.calls) - self._next

    def facts(self, model: str) -> ModelFacts:
        """Return what was known of `model` when it was recorded."""
        return self._recording.models.get(model) or ModelFacts(name=model)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Yield the next recorded answer, or raise what ended it."""
        call = self._take(request)
        for chunk in call.chunks:
            await anyio.lowlevel.checkpoint()
            yield chunk
        if call.error is not None:
            raise call.error

    async def aclose(self) -> None:
        """Do nothing: a recording holds nothing open."""

    def _take(self, request: Request) -> RecordedCall:
        name, place = self.name, self._next
        if not self.calls_left:
            raise ProviderError(
                f"The recording has {place} calls, and this is one more.", provider=name
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

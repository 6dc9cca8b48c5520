"""Switches a session between models, and lists those that its server offers."""

import logging
import time
from collections.abc import Callable
from difflib import get_close_matches

import anyio
from msgspec.structs import replace

from clew.core.errors import ClewError, UnknownModel
from clew.providers.catalogue import families
from clew.providers.protocol import ListsModels, Provider
from clew.providers.registry import FAMILIES, find_model
from clew.sdk.model_choice import ModelChoice, ModelChooser
from clew.sdk.saved_model import save_model
from clew.session.session import Session

logger = logging.getLogger(__name__)

_MAX_CATALOGUE = 12
_MAX_OFFERED = 40
_TIMEOUT = 3.0
_FRESH = 300.0
"""Seconds after which a server is asked again."""


class OfferedModels:
    """The models that a server offers: asked for once, then kept for five minutes."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asking = anyio.Lock()
        self._asked: Provider | None = None
        self._at = 0.0
        self.names: tuple[str, ...] = ()
        """What the server said last; empty before it was asked."""

    def is_fresh(self, provider: Provider) -> bool:
        """Return whether `names` are those of this provider, and not old."""
        return provider is self._asked and self._clock() - self._at < _FRESH

    @property
    def is_asking(self) -> bool:
        """True while the server is being asked."""
        return self._asking.locked()

    async def ask(self, provider: Provider) -> tuple[str, ...]:
        """Return the names; empty if the server does not answer in time or has no list."""
        async with self._asking:
            if not self.is_fresh(provider):
                self.names = await _ask(provider)
                self._asked, self._at = provider, self._clock()
            return self.names


async def _ask(provider: Provider) -> tuple[str, ...]:
    if isinstance(provider, ListsModels):
        try:
            with anyio.move_on_after(_TIMEOUT):
                return tuple(facts.name for facts in await provider.models())
        except ClewError as error:
            logger.info("the models of %s are unknown: %s", provider.name, error)
    return ()


class ModelSwitcher:
    """Finds the providers that `/model` asks for, and closes the ones it made.

    Args:
        chooser: Picks providers by settings and environment.
        current: The provider of the session; it serves every model of its own family.
        first: A choice whose provider belongs to the switcher, which closes it.
    """

    def __init__(
        self, chooser: ModelChooser, *, current: Provider, first: ModelChoice | None = None
    ) -> None:
        self._chooser = chooser
        self._current = current
        self._choice = first
        self._owned: list[Provider] = [first.provider] if first is not None else []
        self._offered = OfferedModels()

    async def switch(self, session: Session, model: str) -> str:
        """Continue with another model; returns a sentence that says how it was chosen.

        Raises:
            ClewError: No provider serves it, or the session could not switch; the session keeps
                the model it had.
        """
        choice = await self._choose(model)
        if choice.provider is not self._current and choice.provider not in self._owned:
            self._owned.append(choice.provider)
        await session.set_model(
            choice.model, provider=choice.provider, max_context_tokens=choice.window
        )
        self._current = choice.provider
        if choice.saved is not None:
            self._choice = choice
            await save_model(session, choice.saved)
        return f"switched to {choice.model}: {choice.why}"

    async def list_models(self) -> list[str]:
        """Return lines that list the providers and models to choose from."""
        lines = [f"available providers: {', '.join(self._chooser.list_providers())}"]
        offered = await self._offered.ask(self._current)
        if offered:
            more = len(offered) - _MAX_OFFERED
            end = f" and {more:,} more" if more > 0 else ""
            names = ", ".join(offered[:_MAX_OFFERED])
            lines.append(f"{self._current.name} offers: {names}{end}")
        known = [facts.name for facts in families()][:_MAX_CATALOGUE]
        return [*lines, f"models of other providers: {', '.join(known)}, …"]

    def offered_now(self) -> tuple[str, ...]:
        """Return the models that the server of the session is known to offer, without asking."""
        return self._offered.names if self._offered.is_fresh(self._current) else ()

    @property
    def should_ask(self) -> bool:
        """True when completion needs an answer of `ask_server`: not for a caller's own provider."""
        offered = self._offered
        is_known = offered.is_fresh(self._current) or offered.is_asking
        return bool(self._owned) and not is_known

    async def ask_server(self) -> None:
        """Ask the server which models it offers, unless it was asked a short time ago."""
        await self._offered.ask(self._current)

    async def aclose(self) -> None:
        """Close every provider that was made."""
        for provider in self._owned:
            await provider.aclose()

    async def _choose(self, model: str) -> ModelChoice:
        provider = self._current
        if model in self.offered_now():
            return self._keep_provider(model)
        head, _, rest = model.partition("/")
        if rest and self._chooser.has_profile(head):
            return self._chooser.choose_model(model)
        if rest and head == provider.name:
            return self._keep_provider(rest)
        try:
            asked = find_model(model)
        except UnknownModel as error:
            if self._has_any_model or model in await self._offered.ask(provider):
                return self._keep_provider(model)
            raise self._explain(model) from error
        if not self._owned and asked.family.name == provider.name:
            return self._keep_provider(asked.model)
        return self._chooser.choose_model(model)

    @property
    def _has_any_model(self) -> bool:
        """True if models of the provider can have any name, as on a server of the user's own."""
        family = FAMILIES.get(self._current.name)
        if family is None or not family.prefixes:
            return True
        saved = self._choice.saved if self._choice is not None else None
        return saved is not None and self._chooser.has_address(saved)

    def _explain(self, model: str) -> UnknownModel:
        name = self._current.name
        known = [*self.offered_now(), *(facts.name for facts in families())]
        near = get_close_matches(model.lower(), known, n=1)
        hint = f"; did you mean {near[0]}?" if near else "."
        return UnknownModel(
            f"no provider is known for the model {model!r}{hint}"
            f" To use that name with {name} all the same: /model {name}/{model}"
        )

    def _keep_provider(self, model: str) -> ModelChoice:
        """Return the choice of another model of the same provider."""
        why, first = "the same provider", self._choice
        if first is None or first.saved is None:
            return ModelChoice(provider=self._current, model=model, why=why)
        saved = replace(first.saved, model=model, window=None)
        window = self._chooser.find_window(saved)
        return ModelChoice(provider=self._current, model=model, why=why, window=window, saved=saved)

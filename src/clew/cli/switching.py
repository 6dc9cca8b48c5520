"""Changing the model while a session runs."""

from collections.abc import Mapping

from clew.cli.choose import Choice, chosen
from clew.providers.catalogue import families
from clew.providers.protocol import Provider
from clew.providers.registry import FAMILIES
from clew.session.session import Session

_SHOWN_MODELS = 12


class Switchboard:
    """Makes the providers that `/model` asks for, and closes all of them at the end."""

    def __init__(self, first: Choice, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._made: list[Provider] = [first.provider]

    async def switch(self, session: Session, model: str) -> str:
        """Go on with another model; returns the sentence that says so.

        Raises:
            ClewError: There is no way to it, or the session could not take it; the session
                goes on with the model it had.
        """
        choice = chosen(model, self._environ)
        self._made.append(choice.provider)
        await session.set_model(choice.model, provider=choice.provider)
        return f"going on with {choice.model}: {choice.why}"

    def overview(self, session: Session) -> list[str]:
        """Return what answers now, and what could."""
        setup = session.journal.view.setup.model
        ready = [f.name for f in FAMILIES.values() if not f.needs_key or f.is_ready(self._environ)]
        known = [facts.name for facts in families()][:_SHOWN_MODELS]
        return [
            f"{setup.name}: a window of {setup.window:,} tokens, answers to {setup.max_output:,}",
            f"providers that lack no key: {', '.join(ready)}",
            f"models: {', '.join(known)}, …",
            "switch with /model NAME or /model PROVIDER/NAME",
        ]

    async def aclose(self) -> None:
        """Close every provider that was made."""
        for provider in self._made:
            await provider.aclose()

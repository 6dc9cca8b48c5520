"""Changing the model while a session runs."""

from clew.cli.choose import Choice, Chooser
from clew.providers.catalogue import families
from clew.providers.protocol import Provider
from clew.session.session import Session

_SHOWN_MODELS = 12


class Switchboard:
    """Makes the providers that `/model` asks for, and closes all of them at the end."""

    def __init__(self, first: Choice, chooser: Chooser) -> None:
        self._chooser = chooser
        self._made: list[Provider] = [first.provider]

    async def switch(self, session: Session, model: str) -> str:
        """Go on with another model; returns the sentence that says so.

        Raises:
            ClewError: There is no way to it, or the session could not take it; the session
                goes on with the model it had.
        """
        choice = self._chooser.named(model)
        self._made.append(choice.provider)
        await session.set_model(
            choice.model, provider=choice.provider, max_context_tokens=choice.window
        )
        return f"going on with {choice.model}: {choice.why}"

    def overview(self) -> list[str]:
        """Return what could answer."""
        known = [facts.name for facts in families()][:_SHOWN_MODELS]
        return [
            f"providers that lack no key: {', '.join(self._chooser.ready())}",
            f"models: {', '.join(known)}, …",
        ]

    async def aclose(self) -> None:
        """Close every provider that was made."""
        for provider in self._made:
            await provider.aclose()

"""Keeping what a person allowed for the project: in its local settings, as rules."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from anyio import to_thread

from clew.config.updates import add_allow_rules
from clew.core.errors import ConfigError
from clew.sdk.finding import load, trust_of
from clew.sdk.gatekeeping import Remember
from clew.sdk.places import Homes


def remembering(
    cwd: Path, homes: Homes, environ: Mapping[str, str], warn: Callable[[str], None]
) -> Remember:
    """Return who keeps rules for the project; trouble is told, the call runs all the same."""

    async def remember(rules: Sequence[str]) -> None:
        try:
            await to_thread.run_sync(_keep, cwd, homes, environ, rules)
        except ConfigError as error:
            warn(f"it is allowed for this session, and could not be kept for the project: {error}")

    return remember


def _keep(cwd: Path, homes: Homes, environ: Mapping[str, str], rules: Sequence[str]) -> None:
    loaded = load(cwd, homes, environ)
    if loaded.withheld:
        raise ConfigError("accept the settings of this folder first: clew config accept")
    add_allow_rules(loaded, rules, trust=trust_of(homes))

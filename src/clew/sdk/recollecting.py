"""What a session used of the project's memory, read back from its journal."""

from collections.abc import Iterable

from clew.core.entries import Entry, Noted
from clew.extensions.memory import MemoryReference
from clew.sdk.history import MEMORY


def used_before(entries: Iterable[Entry]) -> list[MemoryReference]:
    """Return the places of the memory that were shown or found, each once, the latest last."""
    found: dict[str, MemoryReference] = {}
    for entry in entries:
        match entry.body:
            case Noted(topic=topic, data={"kind": "retrieved", "why": str(path), **rest}) if (
                topic == MEMORY
            ):
                found.pop(path, None)
                found[path] = MemoryReference(topic=str(rest.get("topic", "")), path=path)
            case _:
                pass
    return list(found.values())

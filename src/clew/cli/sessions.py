"""`clew sessions`: what can be resumed in this folder."""

import time

import anyio

from clew.cli.harmless import one_line
from clew.cli.history import first_words
from clew.cli.opening import working_folder
from clew.cli.places import store_path
from clew.cli.streams import tell, write_out
from clew.core.entries import SessionRecord
from clew.core.errors import StoreError
from clew.session.stores.protocol import Store
from clew.session.stores.sqlite import SqliteStore

_MOST = 20
_SHOWN = 60


def run_sessions() -> int:
    """List the newest sessions, the one used last first."""
    path = store_path(working_folder())
    lines = anyio.run(_lines, SqliteStore(path)) if path.exists() else []
    if not lines:
        tell("there is no session in this folder yet")
    write_out("".join(f"{line}\n" for line in lines))
    return 0


async def _lines(store: Store) -> list[str]:
    try:
        known = await store.sessions()
        lines = [await _line(store, record) for record in known[:_MOST]]
    finally:
        await store.aclose()
    more = len(known) - len(lines)
    return [*lines, f"… and {more:,} older ones"] if more else lines


async def _line(store: Store, record: SessionRecord) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.updated_at))
    try:
        _, entries = await store.load(record.id)
    except StoreError as error:
        return f"{one_line(record.id, 40)}  {when}  cannot be read: {one_line(str(error), _SHOWN)}"
    title = record.name or first_words(entries)
    return (
        f"{one_line(record.id, 40)}  {when}  {len(entries):>5,} entries  {one_line(title, _SHOWN)}"
    )

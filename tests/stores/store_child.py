"""A process that uses a store, to be raced against, killed and watched.

python -m tests.stores.store_child PLACE hold|race|write|begin
"""

import sys

import anyio

from clew.core.entries import Entry, MessageAdded, SessionRecord
from clew.core.errors import SessionBusy
from clew.core.ids import EntryId, SessionId
from clew.core.messages import user
from clew.stores import open_store
from clew.stores.protocol import Store

SHARED = SessionId("shared")
RECORD = SessionRecord(id=SHARED, cwd="/work", created_at=1.0, updated_at=1.0)


def entry(number: int, text: str = "hello") -> Entry:
    return Entry(id=EntryId(number), at=1.0, body=MessageAdded(message=user(text)))


def say(text: object) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def hold(store: Store) -> None:
    """Take the lease and keep it until standard input ends."""
    await store.lease(SHARED)
    say("held")
    sys.stdin.read()


async def race(store: Store) -> None:
    """Get ready, wait for the signal, try for the lease, and keep it if it is won."""
    await store.sessions()
    say("ready")
    sys.stdin.readline()
    try:
        await store.lease(SHARED)
    except SessionBusy:
        say("lost")
    else:
        say("won")
    sys.stdin.read()


async def write(store: Store) -> None:
    """Append entries for ever, and name each one that is stored."""
    await store.lease(SHARED)
    number = len((await store.load(SHARED))[1])
    while True:
        number += 1
        await store.append(SHARED, [entry(number, f"word{number} " * (1 + number % 400))])
        say(number)


async def begin(store: Store) -> None:
    """Get ready, wait for the signal, then open a store that may need to be made or migrated."""
    say("ready")
    sys.stdin.readline()
    say(len(await store.sessions()))


ACTIONS = {"hold": hold, "race": race, "write": write, "begin": begin}


async def main(place: str, action: str) -> None:
    await ACTIONS[action](open_store(place))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2])

"""Close a session, find it again by a search, resume it, and fork it.

Run it with: python examples/09_resume_and_fork.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from clew import InteractiveSession
from clew.providers.scripted import ScriptedProvider
from clew.stores.sqlite import SqliteStore


async def main() -> None:
    """Start a session, resume it, and try something else in a fork."""
    model = ScriptedProvider(["Noted.", "It is MARIGOLD-7.", "Noted: another one.", "ROSE-8."])
    with TemporaryDirectory() as name:
        folder = Path(name)
        store = SqliteStore(folder / "sessions.db")

        def open_session(resume: str | None = None, *, fork: bool = False) -> InteractiveSession:
            return InteractiveSession(
                cwd=folder,
                provider=model,
                model="scripted",
                store=store,
                clew_home=folder / "home",
                resume_session_id=resume,
                fork_session=fork,
            )

        async with open_session() as session:
            await session.run("The code word is MARIGOLD-7.")
            await session.set_name("code words")

        (hit,) = await store.search("marigold")
        print(f"found: {hit.session.name!r}, entry #{hit.entry_id}")
        async with open_session(hit.session.id) as session:
            print("resumed:", (await session.run("What is the code word?")).response)

        async with open_session(hit.session.id, fork=True) as session:
            await session.run("From now on it is ROSE-8.")
            print("forked:", (await session.run("What is it now?")).response)

        for record in await store.sessions():
            kind = "fork" if record.parent else "original"
            print(f"{kind}: {record.messages} messages, last: {record.last_words}")
        await store.aclose()


if __name__ == "__main__":
    anyio.run(main)

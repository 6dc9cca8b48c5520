"""A window that fills up: compaction, loss report, search, and undo.

Run it with: python examples/02_compaction.py
"""

import anyio

from clew import ModelFacts, Session
from clew.core.events import CompactionEnded
from clew.providers.scripted import ScriptedProvider

SMALL = ModelFacts(name="scripted", window=2_000, summarises=False)


def show(event: CompactionEnded) -> None:
    """Print the loss report of a compaction."""
    report = event.report
    print(f"compacted: {report.tokens_before} → {report.tokens_after} tokens")
    print(f"  kept {len(report.kept)}, summarised {len(report.summarised)}")


async def main() -> None:
    """Ask until the window is full, and then some more."""
    model = ScriptedProvider(["Here is a long answer. " * 70] * 9, facts=SMALL)
    async with Session(model, model="scripted") as session:
        session.on("compaction", show)
        await session.run("Rule: the code word is MARIGOLD-7.")
        for number in range(8):
            await session.run(f"Question {number}?")
        found = session.search("MARIGOLD-7")
        print(f"the code word is in entry #{found[-1].id}")
        undone = await session.undo()
        print(f"compaction #{undone.id} is undone")
        print(f"{len(session.get_history())} messages in the view again")


if __name__ == "__main__":
    anyio.run(main)

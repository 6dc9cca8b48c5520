"""From a prompt to an answer in one line; each query is a session of its own.

Run it with: python examples/06_query.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from clew import PermissionMode, create_query
from clew.providers.scripted import ScriptedProvider, call_reply


async def main() -> None:
    """Ask two things; the second may change files."""
    model = ScriptedProvider(
        [
            "Ariadne gave it to Theseus.",
            call_reply(("Write", {"file_path": "answer.txt", "content": "Crete\n"})),
            "It is written down.",
        ]
    )
    with TemporaryDirectory() as name:
        folder = Path(name)
        query = create_query(model, cwd=folder, model="scripted", clew_home=folder / "home")

        print(await query("Who had the clew?"))
        words: list[str] = []
        answer = await query(
            "Write down where the labyrinth was.",
            permission_mode=PermissionMode.ACCEPT_EDITS,
            max_turns=5,
            on_text_delta=words.append,
        )
        print(f"{answer} (in {len(words)} pieces)")
        print("answer.txt:", (folder / "answer.txt").read_text(encoding="utf-8").strip())


if __name__ == "__main__":
    anyio.run(main)

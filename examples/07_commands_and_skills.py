"""A command of your own, and a skill: instructions in a file that you call by name.

Run it with: python examples/07_commands_and_skills.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from clew import Command, CommandModule, CommandResult, InteractiveSession
from clew.extensions.commands.protocol import CommandHost
from clew.providers.scripted import ScriptedProvider
from clew.sdk.client import run_line

SKILL = """\
---
description: Tell what a word means
argument-hint: WORD
---
Explain the word "$ARGUMENTS" in one sentence.
"""


class Words:
    """`/words ROLE`: the number of words in the conversation."""

    command = Command(name="words", description="count the words", argument_hint="[ROLE]")

    async def execute(self, host: CommandHost, arguments: str) -> CommandResult:
        """Count the words of one role, or of all."""
        found = [m for m in host.session.get_history() if arguments in ("", m.role)]
        count = sum(len(message.text.split()) for message in found)
        return CommandResult(f"{count} words", data={"words": count})


async def main() -> None:
    """Run a skill, then the command, then a built-in one."""
    module = CommandModule(name="counting", system_commands=(Words(),))
    model = ScriptedProvider(["A clew is a ball of thread."])
    with TemporaryDirectory() as name:
        folder = Path(name)
        place = folder / ".clew" / "skills" / "define"
        place.mkdir(parents=True)
        (place / "SKILL.md").write_text(SKILL, encoding="utf-8")
        session = InteractiveSession(
            cwd=folder, provider=model, model="scripted", command_modules=[module], clew_home=folder
        )
        async with session:
            for line in ("/define clew", "/words assistant", "/pin"):
                outcome, result = await run_line(session, line)
                print(f"{line} → {result.response if result else outcome.message}")
            print("the model was sent:", model.requests[0].messages[-1].text.splitlines()[0])


if __name__ == "__main__":
    anyio.run(main)

"""Your own command beside the built-in ones, and a skill: words in a file, called by name.

Run it with: python examples/07_commands_and_skills.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from clew import CommandModule, CommandResult, InteractiveSession, get_messages_for_api
from clew.extensions.commands.protocol import Command, CommandHost
from clew.providers.scripted import ScriptedProvider

SKILL = """\
---
description: Tell what a word means
argument-hint: WORD
---
Explain the word "$ARGUMENTS" in one sentence.
"""


class Words:
    """`/words ROLE`: how many words were said so far."""

    command = Command(name="words", description="count what was said", argument_hint="[ROLE]")

    async def execute(self, host: CommandHost, arguments: str) -> CommandResult:
        """Count the words of one role, or of all."""
        messages = get_messages_for_api(host.session.get_full_history())
        said = [message for message in messages if arguments in ("", message.role)]
        count = sum(len(message.text.split()) for message in said)
        return CommandResult(f"{count} words were said", data={"words": count})


async def main() -> None:
    """Call a skill, then the command, then a built-in one."""
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
            for line in ("define clew", "words assistant", "pin"):
                command, _, arguments = line.partition(" ")
                result = await session.execute_command(command, arguments)
                print(f"/{line} → {result.message if result else 'no such command'}")
            print("the model was sent:", model.requests[0].messages[-1].text.splitlines()[-1])


if __name__ == "__main__":
    anyio.run(main)

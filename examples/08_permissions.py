"""Questions about tool calls as events: any client that listens may answer.

Run it with: python examples/08_permissions.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from clew.sdk.values import PermissionRequest

from clew import Approval, InteractiveSession
from clew.providers.scripted import ScriptedProvider, call_reply


def bash(command: str) -> tuple[str, dict[str, object]]:
    """Return a call of the Bash tool."""
    return "Bash", {"command": command}


async def main() -> None:
    """Let the model try four things; allow some of them."""
    model = ScriptedProvider(
        [
            call_reply(("Write", {"file_path": "a.txt", "content": "one\n"})),
            call_reply(bash("touch b.txt")),
            call_reply(bash("touch c.txt")),
            call_reply(bash("rm a.txt")),
            "That is all.",
        ]
    )
    with TemporaryDirectory() as name:
        folder = Path(name)
        async with InteractiveSession(
            cwd=folder, provider=model, model="scripted", clew_home=folder / ".home"
        ) as session:

            def answer(asked: PermissionRequest) -> None:
                removes = asked.target.startswith("rm ")
                approval = Approval.NO if removes else Approval.SESSION
                print(f"{asked.tool_name} {Path(asked.target).name}? {approval}")
                session.answer_permission(asked.request_id, approval)

            session.on("permission_request", answer)
            result = await session.submit("Tidy up.")
            for call in result.tool_summaries:
                print(f"  {call.tool_name}: {call.result}")
            grants = await session.execute_command("permissions", "clear")
            print(grants.message if grants else "")


if __name__ == "__main__":
    anyio.run(main)

"""Permission requests are events: any client can answer them.

Run it with: python examples/08_permissions.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from clew import Approval, InteractiveSession, PermissionRequest
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

            def answer(request: PermissionRequest) -> None:
                removes = request.target.startswith("rm ")
                approval = Approval.NO if removes else Approval.SESSION
                print(f"{request.tool_name} {Path(request.target).name}? {approval}")
                session.answer(request.request_id, approval)

            session.on("permission_request", answer)
            result = await session.run("Tidy up.")
            for call in result.tool_summaries:
                print(f"  {call.tool_name}: {call.result}")
            print((await session.execute("/permissions clear")).message)


if __name__ == "__main__":
    anyio.run(main)

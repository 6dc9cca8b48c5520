"""A scripted model over HTTP whose agents read and write files, in a process of its own.

The prompt says everything: `agent 7 of FOLDER, 4 steps, step 3 waits for FILE`. Each step is a tool
call: even steps read a file, odd steps append one line to the file of the agent, so that a call
that ran twice shows. When the outcome of a write is unknown, the model looks into the file before
it writes again, as the result asks it to.
"""

import re
import sys
from pathlib import Path

import anyio
import msgspec

from benchmarks.durable_witness import write_request
from clew.testing.fake_openai import fake_openai, text_response, tool_call_response
from clew.testing.server import ScriptedResponse

_PROMPT = re.compile(
    r"agent (\d+) of (\S+), (\d+) steps(?:, ([\d.]+) s each)?(?:, step (\d+) waits for (\S+))?"
)
_UNKNOWN = "outcome unknown"


def expected_lines(agent: int, steps: int) -> list[str]:
    """Return the lines that an agent writes, in order."""
    return [f"agent {agent} step {step}" for step in range(steps) if step % 2]


def answer(body: bytes, witness: Path) -> ScriptedResponse:
    """Note a request, and return the next step of the agent whose conversation it has."""
    messages = msgspec.json.decode(body)["messages"]
    found = next(filter(None, map(_find_prompt, messages)), None)
    if found is None:
        return text_response("nothing to do")
    write_request(witness, int(found[1]), messages)
    agent, folder, steps, seconds, gated, gate = found.groups()
    file = f"{folder}/agent-{agent}.txt"
    step, checks = _count(messages, agent)
    if checks:
        return _call("Read", {"file_path": file}, f"check-{agent}-{len(messages)}")
    if step >= int(steps):
        return text_response(f"agent {agent} is done")
    if step % 2 == 0:
        return _call("Read", {"file_path": f"{folder}/shared.txt"}, f"r{agent}-{len(messages)}")
    command = f"sleep {seconds or 0}; echo 'agent {agent} step {step}' >> {file}"
    if gate and int(gated) == step:
        command = f"until [ -e {gate} ]; do sleep 0.05; done; {command}"
    return _call("Bash", {"command": command}, f"w{agent}-{len(messages)}")


def _find_prompt(message: dict[str, object]) -> re.Match[str] | None:
    return _PROMPT.search(_text(message)) if message["role"] == "user" else None


def _text(message: dict[str, object]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content)
    return str(content or "")


def _count(messages: list[dict[str, object]], agent: str) -> tuple[int, bool]:
    """Return which step is next, and whether the file must be looked at first."""
    step, is_unknown, writes = 0, False, False
    for message in messages:
        if message["role"] == "assistant":
            calls = message.get("tool_calls") or []
            assert isinstance(calls, list)
            names = [call["function"]["name"] for call in calls]
            writes = "Bash" in names
        elif message["role"] == "tool":
            text = _text(message)
            if is_unknown:
                # The file that was read tells whether the line of this step is there.
                is_unknown = False
                step += f"agent {agent} step {step}\n" in f"{text}\n"
            elif writes and _UNKNOWN in text:
                is_unknown = True
            else:
                step += 1
    return step, is_unknown


def _call(name: str, arguments: dict[str, str], call_id: str) -> ScriptedResponse:
    return tool_call_response(name, msgspec.json.encode(arguments).decode(), call_id=call_id)


async def main() -> None:
    """Serve until standard input is closed; the first line of output is the address.

    The argument is the file for the requests.
    """
    witness = Path(sys.argv[1])
    async with fake_openai(lambda body: answer(body, witness)) as server:
        server.bodies = _Nothing()
        print(server.url, flush=True)
        await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


class _Nothing(list[bytes]):
    """Forgets the requests: a benchmark makes many."""

    def append(self, _: bytes) -> None:
        """Keep nothing."""


if __name__ == "__main__":
    anyio.run(main)

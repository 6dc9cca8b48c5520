"""`clew -p`: one prompt, one answer, for people in a hurry and for scripts."""

import sys
from argparse import Namespace

import anyio
import msgspec

from clew.cli.opening import opened
from clew.core.errors import ClewError, ConfigError
from clew.core.events import Event, RunEnded, TextDelta, Warned
from clew.core.state import ContextState
from clew.core.usage import Usage


class Outcome(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="result"):
    """What `--output-format json` prints, and the last line of `stream-json`."""

    session_id: str
    text: str
    usage: Usage | None
    context: ContextState
    used_percentage: float
    error: str = ""


def run_print(arguments: Namespace) -> int:
    """Answer the prompt; with `-` it is read from standard input."""
    prompt = sys.stdin.read() if arguments.prompt == "-" else arguments.prompt
    if not prompt.strip():
        raise ConfigError("the prompt is empty; write it after -p, or pipe it to `clew -p -`")
    return anyio.run(_print, arguments, prompt)


async def _print(arguments: Namespace, prompt: str) -> int:
    style = arguments.output_format
    ended: list[RunEnded] = []

    def on_event(event: Event) -> None:
        if style == "stream-json":
            _write(msgspec.json.encode(event).decode() + "\n")
        elif style == "text" and isinstance(event, TextDelta):
            _write(event.text)
        elif isinstance(event, Warned):
            print(f"clew: {event.text}", file=sys.stderr)
        if isinstance(event, RunEnded):
            ended.append(event)

    async with opened(arguments, on_event=on_event) as session:
        error = ""
        try:
            await session.run(prompt)
        except ClewError as failure:
            if style == "text":
                raise
            error = str(failure)
        if style == "text":
            _write("\n")
        else:
            state = session.get_context_state()
            outcome = Outcome(
                session_id=session.session_id,
                text=ended[-1].text if ended else "",
                usage=ended[-1].usage if ended else None,
                context=state,
                used_percentage=state.used_percentage,
                error=error,
            )
            _write(msgspec.json.encode(outcome).decode() + "\n")
        return 1 if error else 0


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()

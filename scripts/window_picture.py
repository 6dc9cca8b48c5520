"""Draw `docs/window.svg`: the window of one session over time, at each level of economy.

The session is made up: requests, searches, file reads and edits of typical sizes. The decisions
are those of the real engine, by the simulator behind `clew simulate`.
"""

import random
from pathlib import Path

from msgspec.json import encode

from clew.context.economy import Economy
from clew.core.ids import CallId
from clew.core.messages import Message, ToolCall, assistant, tool_result, user
from clew.core.models import ModelFacts
from clew.importers.recorded_session import RecordedSession, RecordedStep
from clew.simulation.chart import draw_chart
from clew.simulation.scenario import make_scenarios
from clew.simulation.simulator import simulate

PICTURE = Path(__file__).parent.parent / "docs" / "window.svg"
MODEL = ModelFacts(name="claude-sonnet-4-5", window=200_000)
TURNS, CALLS = 14, 12
SECONDS_PER_CALL = 20.0
_WORDS = ("journal", "entry", "view", "budget", "cache", "prefix", "result", "window", "store")


def draw_window() -> str:
    """Return the picture as SVG."""
    scenarios = make_scenarios(map(str, Economy))
    runs = simulate(_make_session(), scenarios, MODEL, lookups=False)
    title = f"One session of {TURNS} requests and {runs[0].calls} calls, at each level of economy"
    return draw_chart(runs, title=title, window=MODEL.window)


def _make_session() -> RecordedSession:
    chance = random.Random(7)  # noqa: S311 - the same picture every time
    messages: list[Message] = []
    for turn in range(TURNS):
        messages.append(user(f"Please look into part {turn}: {_make_text(chance, 40)}"))
        for step in range(chance.randrange(CALLS // 2, CALLS * 3 // 2)):
            path = f"src/part_{turn}/{chance.choice(_WORDS)}_{step}.py"
            call = ToolCall(
                call_id=CallId(f"call_{turn}_{step}"),
                name="Read",
                arguments=encode({"file_path": path}).decode(),
            )
            messages.append(assistant(call))
            messages.append(tool_result(call, _make_text(chance, chance.randrange(200, 1_200))))
        messages.append(assistant(f"Part {turn} is done. {_make_text(chance, 120)}"))
    steps = [
        RecordedStep(message=message, at=1.0 + number * SECONDS_PER_CALL / 2)
        for number, message in enumerate(messages)
    ]
    return RecordedSession(source="clew", steps=tuple(steps))


def _make_text(chance: random.Random, words: int) -> str:
    return " ".join(f"{chance.choice(_WORDS)}_{chance.randrange(1_000)}" for _ in range(words))


if __name__ == "__main__":
    PICTURE.write_text(draw_window(), encoding="utf-8")
    print(f"{PICTURE} is written")  # noqa: T201 - it is a script

"""A model that works through a project: it reads files, edits one, and answers.

Its token counts grow with the requests, so the window fills and is compacted as with a real one.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clew.testing.fake_openai import DONE, ScriptedResponse, delta, usage

MODULES = (
    "parser",
    "records",
    "totals",
    "export",
    "storage",
    "queue",
    "retry",
    "config",
    "server",
)
SUMMARY = """\
## Goal
Reports with empty fields must not fail; the totals stay correct.

## Done
- `parser.py` treats an empty amount as `0`; the test `test_empty_amount` passes.
- `totals.py` sums the amounts per name, and `export.py` writes the header once.

## Decisions
- No new dependency; one record per line.
- Errors name the line: `line 12: amount is not a number`.

## Next
Read `storage.py`, then run `make test`.
"""
_LINE = "    total_{at} = sum(record.amount for record in records if record.name == names[{at}])\n"
_REPORT = """\
def read(line: str) -> Record:
    name, amount = line.split(";")
    return Record(name, int(amount))
"""
_ANSWER = """\
`{name}.py` is fine. What I found:

| function | does | risk |
|---|---|---|
| `read` | splits a line at the semicolon | an **empty field** fails |
| `total` | sums the amounts per name | none |

The fix is one line:

```python
def read(line: str) -> Record:
    name, amount = line.split(";")
    return Record(name, int(amount or 0))  # an empty amount counts as zero
```

Next I look at the module that calls it.
"""


_EDIT = {
    "file_path": "report.py",
    "old_string": "    return Record(name, int(amount))",
    "new_string": "    # An empty amount is zero.\n    return Record(name, int(amount or 0))",
}
_DONE = """\
Done. `read` treats an empty amount as **zero** now. A word that is not a number still fails, and
the error names the line.
"""
_FINDING = "- `{name}.run`, line {at}: sums the amounts of one name; an empty field comes as text\n"


def write_project(project: Path, *, lines: int = 60) -> None:
    """Write the modules that the model reads."""
    project.mkdir(exist_ok=True)
    for name in MODULES:
        body = "".join(_LINE.format(at=at) for at in range(lines))
        (project / f"{name}.py").write_text(
            f'"""The {name}."""\n\n\ndef run(records, names):\n{body}'
        )
    (project / "report.py").write_text(_REPORT)


def reply(
    text: str = "",
    *calls: tuple[str, dict[str, Any]],
    tokens: int,
    thinking: str = "",
    number: int = 0,
) -> ScriptedResponse:
    """Return a response: reasoning, text and tool calls."""
    steps = [delta(reasoning_content=thinking)] if thinking else []
    steps += [delta(content=piece) for piece in text.splitlines(keepends=True)]
    for index, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"index": index, "id": f"call_{number}_{index}", "type": "function"}
        steps.append(delta(tool_calls=[{**call, "function": function}]))
    end = delta("tool_calls" if calls else "stop")
    written = len(text) // 4 + 60 * len(calls) + len(thinking) // 4 + 4
    return ScriptedResponse(steps=[*steps, end, usage(tokens, written, cached=tokens // 2), DONE])


def make_model(reads: int = 3, *, findings: int = 0) -> Callable[[bytes], ScriptedResponse]:
    """Return a model that reads some files for each prompt, and then answers.

    Args:
        reads: How many files it reads before it answers.
        findings: How many more lines an answer has, and how many its reasoning.
    """
    count = 0

    def answer(body: bytes) -> ScriptedResponse:
        nonlocal count
        count += 1
        request = json.loads(body)
        messages, tokens = request["messages"], len(body) // 4
        if not request.get("tools") or "summar" in str(messages[-1]["content"])[:2_000].lower():
            return reply(SUMMARY, tokens=tokens)
        since = 0
        for message in reversed(messages):
            if message["role"] == "user":
                break
            since += message["role"] == "tool"
        name = MODULES[count % len(MODULES)]
        if "Fix it" in _find_prompt(messages):
            if since:
                return reply(_DONE, tokens=tokens)
            return reply("I change one line.", ("Edit", _EDIT), tokens=tokens, number=count)
        if since < reads:
            thinking = f"I need to see {name}.py before I change anything in it."
            return reply(
                "",
                ("Read", {"file_path": f"{name}.py"}),
                tokens=tokens,
                thinking=thinking if since == 0 else "",
                number=count,
            )
        more = "".join(_FINDING.format(name=name, at=at) for at in range(findings))
        return reply(more + _ANSWER.format(name=name), tokens=tokens, thinking=more)

    return answer


def _find_prompt(messages: list[dict[str, Any]]) -> str:
    """Return the newest prompt of a request."""
    return next(str(one["content"]) for one in reversed(messages) if one["role"] == "user")

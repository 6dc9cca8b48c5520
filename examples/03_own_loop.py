"""Your own agent loop; `clew.fit` keeps its messages within the window.

Run it with: python examples/03_own_loop.py
"""

from itertools import count
from typing import Any

import clew

LIMIT = 2_000
_numbers = count()


def answer(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Stand in for a provider's client: pretend that the model reads one more file."""
    if clew.count_tokens(messages) > LIMIT:
        raise RuntimeError("a provider would reject this request")
    number = next(_numbers)
    function = {"name": "Read", "arguments": f'{{"file_path":"src/part_{number}.py"}}'}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def main() -> None:
    """Run the loop until it would have overflowed several times."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You read code."},
        {"role": "user", "content": "Rule: never change the billing code. Now read everything."},
    ]
    for step in range(30):
        fitted = clew.fit(messages, max_tokens=LIMIT)
        if len(fitted.messages) != len(messages):
            report = fitted.report
            print(f"step {step}: {report.tokens_before} → {report.tokens_after}: {report.why}")
        # Continue from what was sent: the provider has that prefix in its cache.
        messages = fitted.messages
        reply = answer(messages)
        text = f"def part_{step}():\n    return {step}\n" * 12
        messages += [
            reply,
            {"role": "tool", "tool_call_id": reply["tool_calls"][0]["id"], "content": text},
        ]
    print(f"{clew.count_tokens(messages)} tokens after 30 steps")
    print("the rule is still there:", any("billing" in str(m) for m in messages))
    print("names from the first steps too:", "part_2.py" in str(messages))


if __name__ == "__main__":
    main()

"""Find where Claude Code delivered the prompts that were typed during a run.

Such a prompt waits in a queue. `enqueue` lines record what was typed, and other lines how a prompt
left the queue:

- `remove`: it was delivered in the middle of the run. Newer versions also write an attachment, in
  the place where the model got it.
- `dequeue`: it starts the next run, and a user message follows.
- `popAll`: it went back to the input box and was not said.

A prompt may be delivered in other words than it was typed: with pasted text and images in place of
`[Pasted text #1 +3 lines]` and `[Image #1]`, or several prompts as one message.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec.structs import replace

from clew.importers.claude_code_lines import LineBlock, LineMessage, SessionLine, join_text

_NOTIFICATION = re.compile(r"\s*<[\w-]*notification>")
_COMMAND = re.compile(r"/[\w:-]+(\s|$)")
_DELIVERED = "absorbed"
_IMAGE = "[image]"
"""The text of a prompt without text."""
_IMAGES = re.compile(r"\[image\]|\[Image #\d+\]")
_PASTED = re.compile(r"\[(?:Pasted|\.\.\.Truncated) text #\d+[^\]\n]{0,30}\]")
_PASTED_LINES = re.compile(r"\[(?:Pasted|\.\.\.Truncated) text #\d+ \+(\d+) lines")


def deliver_prompts(lines: Sequence[SessionLine]) -> list[SessionLine]:
    """Return the lines with a user message wherever a queued prompt was delivered, once each."""
    queue = _Queue(lines)
    return [queue.follow(place, line) for place, line in enumerate(lines)]


class _Queue:
    """The prompts that wait, line by line."""

    def __init__(self, lines: Sequence[SessionLine]) -> None:
        self._lines = lines
        self._waiting: list[str] = []
        self._said: list[str] = []
        """Prompts with an attachment, whose `remove` has not appeared yet."""
        self._starts: set[int] = set()
        """Places of the user messages that a `dequeue` announced."""
        self._joined = range(0)
        """Places of further `dequeue` lines whose prompts are in a message that joins several."""
        self._attached = [
            (place, text)
            for place, line in enumerate(lines)
            if line.type == "attachment" and (text := _attached_text(line))
        ]

    def follow(self, place: int, line: SessionLine) -> SessionLine:
        """Return the line, or the message that was delivered there."""
        match line.type:
            case "queue-operation":
                text = self._apply(place, line)
                return self._say(place, line, text) if text else line
            case "attachment" if text := _attached_text(line):
                self._said.append(text)
                self._take(text)
                return self._say(place, line, line.read_attachment().prompt or "")
            case "user" if place not in self._starts and (text := _prompt(line)):
                # Some versions start a run with a prompt without `dequeue`.
                self._take_joined(text)
        return line

    def _apply(self, place: int, line: SessionLine) -> str:
        """Change the queue; returns the prompt that was delivered, if it is recorded only here."""
        content = _queued_text(line)
        match line.operation:
            case "enqueue" if content:
                self._waiting.append(content)
            case "remove":
                return self._remove(place, line, content)
            case "dequeue" if place not in self._joined:
                return self._dequeue(place)
            case "popAll" if not self._take(content):
                self._waiting.clear()
        return ""

    def _remove(self, place: int, line: SessionLine, content: str) -> str:
        said = next((one for one in self._said if not content or _is_same(content, one)), "")
        if said:
            self._said.remove(said)
            return ""
        text = self._take(content) if content else self._take_first()
        if isinstance(line.reason, str) and not line.reason.startswith(_DELIVERED):
            return ""
        return "" if _NOTIFICATION.match(text) or self._is_attached_later(place, text) else text

    def _dequeue(self, place: int) -> str:
        """Return the prompt, unless a user message repeats it."""
        after, answered = self._find_next_prompt(place)
        taken = self._take_joined(_prompt(self._lines[after])) if after is not None else 0
        repeated = taken > 0
        if after is not None and taken > 1:
            self._joined = range(place, after)
        text = "" if repeated else self._take_first()
        # Where the texts differ, the message has a command or pasted text expanded.
        if after is not None and (repeated or not answered):
            self._starts.add(after)
            return ""
        return "" if _NOTIFICATION.match(text) or _COMMAND.match(text) else text

    def _find_next_prompt(self, place: int) -> tuple[int | None, bool]:
        """Return the next user message, and whether a response comes before it."""
        answered = False
        for after in range(place + 1, len(self._lines)):
            if after not in self._starts and _prompt(self._lines[after]):
                return after, answered
            answered = answered or self._lines[after].type == "assistant"
        return None, answered

    def _is_attached_later(self, place: int, text: str) -> bool:
        later = next(
            (at for at, attached in self._attached if at > place and _is_same(text, attached)), None
        )
        if later is None:
            return False
        between = self._lines[place:later]
        return not any(
            line.operation == "enqueue" and _queued_text(line) == text for line in between
        )

    def _take(self, text: str) -> str:
        """Remove a prompt from the queue; empty if it is not there."""
        if text in self._waiting:
            found = text
        else:
            found = next((one for one in self._waiting if _is_same(one, text)), "")
        if found:
            self._waiting.remove(found)
        return found

    def _take_joined(self, text: str) -> int:
        """Remove the prompts that a message repeats, one or the first ones; return how many."""
        if self._take(text):
            return 1
        for count in range(2, len(self._waiting) + 1):
            if _is_same("\n".join(self._waiting[:count]), text):
                del self._waiting[:count]
                return count
        return 0

    def _take_first(self) -> str:
        return self._waiting.pop(0) if self._waiting else ""

    def _say(self, place: int, line: SessionLine, content: str | list[LineBlock]) -> SessionLine:
        """Return the message; it was said when it was delivered, not when it was typed."""
        before = self._lines[place - 1].timestamp if place else ""
        return replace(
            line,
            type="user",
            is_meta=False,
            timestamp=max(line.timestamp, before),
            message=LineMessage(content=content),
        )


def _queued_text(line: SessionLine) -> str:
    """Return the text of a prompt in the queue, which is a string or a list of blocks."""
    content = line.content
    if isinstance(content, str):
        return content.strip()
    blocks = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    texts = [str(block["text"]) for block in blocks if block.get("type") == "text"]
    return "\n".join(texts).strip() or (_IMAGE if blocks else "")


@lru_cache(maxsize=64)
def _is_same(typed: str, delivered: str) -> bool:
    """Return whether a message is what was typed, with pasted text and images in their places."""
    first, *others = map(_squeeze, _PASTED.split(typed))
    text = _squeeze(delivered)
    if not others:
        return first == text
    # The numbers say how many line breaks were pasted, or lines.
    breaks = sum(int(lines) - 1 for lines in _PASTED_LINES.findall(typed))
    if not text.startswith(first) or delivered.count("\n") < breaks:
        return False
    place = len(first)
    for piece in others[:-1]:
        place = text.find(piece, place) + len(piece)
        if place < len(piece):
            return False
    return text.endswith(others[-1]) and place <= len(text) - len(others[-1])


def _squeeze(text: str) -> str:
    """Return `text` without white space and without the places of images."""
    return "".join(_IMAGES.sub("", text).split())


def _attached_text(line: SessionLine) -> str:
    attachment = line.read_attachment()
    prompt = attachment.prompt if attachment.is_prompt else None
    text = prompt if isinstance(prompt, str) else join_text(prompt or [])
    if prompt and not text.strip():
        return _IMAGE
    return "" if _NOTIFICATION.match(text) else text.strip()


def _prompt(line: SessionLine) -> str:
    """Return the text of a user message that is not a result."""
    spoken = line.type == "user" and line.speaks and not line.is_sidechain
    return join_text(line.blocks).strip() if spoken else ""

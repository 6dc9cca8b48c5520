"""Redaction of text that arrives in pieces."""

import re
from collections.abc import Iterable

from clew.core.redaction.tree import Redactor

_MAX_HELD = 65_536
_MAX_TAIL = 4_096
_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY")
_NAME_WAITS = re.compile(r"""\b(?:name|key)["']?[ ]*:[ ]*["']?[\w.-]{1,80}["']?,?\s*$""")
"""The end of a line such as `- name: DB_PASSWORD`, whose value comes on the next one."""


class StreamRedactor:
    """Redacts a text piece by piece, holding back what may be the first half of a secret.

    A line comes out when it is complete, a private key when its end has come. At most 64 KiB
    are held: a longer line is cut at a blank, and a secret across that cut may be missed.
    """

    def __init__(self, extra_keys: Iterable[str] = (), extra_values: Iterable[str] = ()) -> None:
        self._redactor = Redactor(extra_keys, extra_values)
        self._held = ""

    def feed(self, piece: str) -> str:
        """Take in the next piece, and return what is ready to be shown or stored."""
        self._held += piece
        ready = self._ready()
        done, self._held = self._held[:ready], self._held[ready:]
        return self._redactor.text(done)

    def close(self) -> str:
        """Return the rest. Nothing may be fed after this."""
        rest, self._held = self._held, ""
        return self._redactor.text(rest)

    def _ready(self) -> int:
        """Return how much of what is held can be judged without what comes next."""
        held, ready = self._held, self._held.rfind("\n") + 1
        if len(held) > _MAX_HELD:
            tail = len(held) - _MAX_TAIL
            return max(ready, held.rfind(" ", 0, tail) + 1 or tail)
        begin = held.rfind("-----BEGIN ", 0, ready)
        if begin >= 0 and _KEY_BEGINS.match(held, begin) and "-----END " not in held[begin:ready]:
            return begin
        last_line = held.rfind("\n", 0, max(0, ready - 1)) + 1
        return last_line if _NAME_WAITS.search(held, last_line, ready) else ready

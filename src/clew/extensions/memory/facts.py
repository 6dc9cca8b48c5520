"""A remembered fact: one line of Markdown, and how two of them are found to be the same."""

import re
import unicodedata
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias, get_args

from msgspec import Struct

from clew.core.errors import ConfigError
from clew.core.text import one_line

Kind: TypeAlias = Literal["user", "feedback", "project", "reference"]
"""What a fact is about: a person, how to work, the project, or where something is found."""
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

MAX_FACT: Final = 2_000
"""Characters that a fact may have."""

_PREFIX = re.compile(
    rf"\s*[-*+]\s+(?:\[\d{{4}}-\d\d-\d\d\] \((?:{'|'.join(KINDS)})/(?P<topic>[^)]*)\) )?"
)


class Fact(Struct, frozen=True, kw_only=True):
    """Something worth remembering, as `fact` makes it."""

    text: str
    topic: str
    kind: Kind = "project"

    @property
    def key(self) -> str:
        """What two facts that say the same have in common."""
        return key(self.text)

    def line(self, now: float) -> str:
        """Return the fact as it is written into the files."""
        date = datetime.fromtimestamp(now, UTC).date().isoformat()
        return f"- [{date}] ({self.kind}/{self.topic}) {self.text}"


def checked_kind(kind: str) -> Kind:
    """Return `kind` if there is such a kind.

    Raises:
        ConfigError: There is none.
    """
    for known in KINDS:
        if kind == known:
            return known
    raise ConfigError(
        f"There is no kind of memory `{one_line(kind)[:40]}`: use {', '.join(KINDS)}."
    )


def key(text: str) -> str:
    """Return what is left of a fact without case, spacing and a last full stop."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    plain = one_line(folded)
    return plain.rstrip(". ") or plain


def keys_in(text: str, *, topic: str | None = None) -> frozenset[str]:
    """Return the keys of all lines of a file, whoever wrote them.

    Args:
        text: The file.
        topic: Leave out the lines that say they belong to another topic.
    """
    found = set()
    for line in text.splitlines():
        prefix = _PREFIX.match(line)
        if topic is None or prefix is None or prefix["topic"] in (None, topic):
            found.add(key(line[prefix.end() :] if prefix else line))
    return frozenset(found - {""})


def count_in(text: str) -> int:
    """Return how many list items a file has."""
    return sum(_PREFIX.match(line) is not None for line in text.splitlines())


def decoded(data: bytes) -> str:
    r"""Return the text of a file; bytes that are no text are shown as `\xff`."""
    return data.decode("utf-8", "backslashreplace").removeprefix("\ufeff")


MAX_NAME: Final = 60
"""Characters; in UTF-8 and with `.md` they still make a file name everywhere."""
DEFAULT_TOPIC: Final = "general"

_NAME = re.compile(r"[^\W_](?:[\w-]|\.(?=[^\W_]))*")
_FILLERS = re.compile("[\u115f\u1160\u3164\uffa0]")
"""Letters by their class, but nobody sees them."""


def topic_name(text: str) -> str:
    """Return the name of the topic that `text` means: lower case, with `-` for blanks.

    A name begins with a letter or a digit and has letters, digits, `-`, `_` and single dots
    between them. So it never holds a path, `..`, or a sign that cannot be seen. An empty text
    means `general`.

    Raises:
        ConfigError: The text is no such name.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    name = re.sub(r"[ -]+", "-", re.sub(r"(?:\.md)+$", "", folded.strip(" "))).strip("-")
    name = name if folded.strip() else DEFAULT_TOPIC
    if len(name) > MAX_NAME or not _NAME.fullmatch(name) or _FILLERS.search(name):
        raise ConfigError(
            f"{text[:80]!a} cannot be the name of a topic: use letters, digits, `-` and `_`,"
            f" at most {MAX_NAME} of them, as in `build-system`."
        )
    return name

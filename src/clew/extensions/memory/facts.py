"""Facts and topics: how a fact is written, compared, and filed under a topic."""

import re
import unicodedata
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias, get_args

from msgspec import Struct

from clew.core.errors import ConfigError
from clew.core.text import one_line

FactKind: TypeAlias = Literal["user", "feedback", "project", "reference"]
"""What a fact is about: the user, how to work, the project, or where to find something."""
FACT_KINDS: Final[tuple[FactKind, ...]] = get_args(FactKind)

MAX_FACT: Final = 2_000
"""Characters of a fact."""

_PREFIX = re.compile(
    rf"\s*[-*+]\s+(?:\[\d{{4}}-\d\d-\d\d\] \((?:{'|'.join(FACT_KINDS)})/(?P<topic>[^)]*)\) )?"
)


class Fact(Struct, frozen=True, kw_only=True):
    """Something worth remembering, on one line."""

    text: str
    topic: str
    kind: FactKind = "project"

    @property
    def key(self) -> str:
        """The same for two facts that say the same."""
        return normalize_fact(self.text)

    def line(self, now: float) -> str:
        """Return the line that is written to the files."""
        date = datetime.fromtimestamp(now, UTC).date().isoformat()
        return f"- [{date}] ({self.kind}/{self.topic}) {self.text}"


def parse_kind(kind: str) -> FactKind:
    """Return `kind` if it is a kind of fact.

    Raises:
        ConfigError: It is not.
    """
    for known in FACT_KINDS:
        if kind == known:
            return known
    raise ConfigError(
        f"There is no kind of fact `{one_line(kind)[:40]}`: use {', '.join(FACT_KINDS)}."
    )


def normalize_fact(text: str) -> str:
    """Return a fact without case, extra spaces and the final full stop, for comparison."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    plain = one_line(folded)
    return plain.rstrip(". ") or plain


def read_fact_keys(text: str, *, topic: str | None = None) -> frozenset[str]:
    """Return the keys of all lines of a file, also of lines that people wrote.

    Args:
        text: The file.
        topic: Skip lines of other topics.
    """
    found = set()
    for line in text.splitlines():
        prefix = _PREFIX.match(line)
        if topic is None or prefix is None or prefix["topic"] in (None, topic):
            found.add(normalize_fact(line[prefix.end() :] if prefix else line))
    return frozenset(found - {""})


def count_facts(text: str) -> int:
    """Return the number of list items in a file."""
    return sum(_PREFIX.match(line) is not None for line in text.splitlines())


def decode_file(data: bytes) -> str:
    r"""Return the text of a file; bytes that are not UTF-8 appear as `\xff`."""
    return data.decode("utf-8", "backslashreplace").removeprefix("\ufeff")


MAX_NAME: Final = 60
"""Characters; with `.md` and in UTF-8 this is a valid file name everywhere."""
DEFAULT_TOPIC: Final = "general"

_NAME = re.compile(r"[^\W_](?:[\w-]|\.(?=[^\W_]))*")
_FILLERS = re.compile("[\u115f\u1160\u3164\uffa0]")
"""Letters by their Unicode class, but invisible."""


def parse_topic(text: str) -> str:
    """Return the topic that `text` names: lower case, with `-` for blanks.

    A topic becomes a file name. It begins with a letter or a digit and has letters, digits, `-`,
    `_` and single dots between them, so it never contains a path, `..`, or an invisible
    character. An empty text means `general`.

    Raises:
        ConfigError: The text is not a valid topic.
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

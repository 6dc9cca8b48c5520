"""The name of a topic, which becomes the name of a file, and so may come from nobody unchecked."""

import re
import unicodedata
from typing import Final

from clew.core.errors import ConfigError

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

"""Pull requests and issues as the GitHub command line shows them: title and description."""

import re

import msgspec
from msgspec import Struct

from clew.core.json_text import JsonDecoder
from clew.core.text import one_line


class PullRequestText(Struct, frozen=True, kw_only=True):
    """What a pull request or an issue says."""

    title: str
    body: str = ""
    number: int = 0
    """0 if the output does not show it."""


_MOST_CHARS = 800
_json = JsonDecoder(PullRequestText)
_FIELD = re.compile(r"^(title|number):\t(.*)$", re.MULTILINE)


def read_pull_request(output: str) -> PullRequestText | None:
    """Read what `gh pr view` or `gh issue view` printed, as text or JSON; None for other output."""
    if output.startswith("{"):
        try:
            return _json.decode(output)
        except msgspec.DecodeError:
            return None
    head, _, body = output.partition("\n--\n")
    fields = dict(_FIELD.findall(head))
    if "title" not in fields:
        return None
    number = fields.get("number", "")
    return PullRequestText(
        title=fields["title"], body=body, number=int(number) if number.isdecimal() else 0
    )


def quote_pull_request(shown: PullRequestText) -> str:
    """Return title and description on one line; of a long description only the beginning."""
    said = f"{shown.title.strip()}: {shown.body.strip()}" if shown.body.strip() else shown.title
    return one_line(said, _MOST_CHARS)

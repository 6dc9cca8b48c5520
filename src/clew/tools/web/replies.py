"""What a web server answered."""

import codecs
from http import HTTPStatus

from msgspec import Struct

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class Reply(Struct, frozen=True, kw_only=True):
    """An answer that has been read."""

    url: str
    """Where it came from, after redirects."""
    status: int
    media_type: str
    """In lower case and without parameters; `application/octet-stream` if none was named."""
    charset: str = ""
    body: bytes = b""
    is_cut: bool = False
    """True when the server had more to say than was read."""
    location: str = ""
    """Where the server sends us instead, when that was not followed."""

    @property
    def is_ok(self) -> bool:
        """Did the server give what it was asked for?"""
        return 200 <= self.status < 300

    @property
    def outcome(self) -> str:
        """The status in numbers and words."""
        try:
            return f"{self.status} {HTTPStatus(self.status).phrase}"
        except ValueError:
            return str(self.status)

    def text(self) -> str:
        """Decode the body by its mark, as the server says, as UTF-8, or else as Windows does."""
        marked = next((name for bom, name in _BOMS if self.body.startswith(bom)), "")
        # A cut may have gone through a character, which is four bytes at most.
        ends = [len(self.body) - lost for lost in range(4 if self.is_cut else 1)]
        for charset in (marked, self.charset, "utf-8"):
            for end in ends:
                try:
                    return self.body[:end].decode(charset).removeprefix("\ufeff")
                except (LookupError, ValueError):
                    continue
        return self.body.decode("cp1252", "replace")

"""Keeping secrets out of what is written down.

`redact` cleans a text or a document; a `Redactor` does so many times with the same settings, and
a `StreamRedactor` cleans text that arrives in pieces. What is found is replaced by
`[redacted:kind]`. Nothing here reads or writes anything.
"""

from clew.core.redaction.stream import StreamRedactor
from clew.core.redaction.tree import Redactor, redact

__all__ = ["Redactor", "StreamRedactor", "redact"]

"""Names of environment variables that usually hold secrets."""

import re

_SECRET = re.compile(
    r"(?:^|_)(?:"
    r"\w*(?:TOKEN|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASE|APIKEYS?|CREDENTIALS?)"
    r"|KEYS?|PASS|PAT|(?<=_)PWD"
    r")(?:_|\d*$)"
)
_NO_SECRET = re.compile(r"(?:^|_)PUBLIC_?KEYS?(?:_|$)")


def is_secret_variable(name: str) -> bool:
    """Return whether a variable of this name usually holds a secret."""
    upper = name.upper()
    return bool(_SECRET.search(upper)) and not _NO_SECRET.search(upper)

"""The environment of the programs that tools start: everything but secrets.

A variable is taken for a secret by its name: one of its words is `TOKEN`, `SECRET`, `KEY`,
`PASSWORD` or the like. `AWS_REGION` is passed on, `AWS_SECRET_ACCESS_KEY` is not. This keeps
secrets out of logs and answers; out of reach they are only in a sandbox, where a program
cannot look into the process that started it.
"""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

_SECRET = re.compile(
    r"(?:^|_)(?:"
    r"\w*(?:TOKEN|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASE|APIKEYS?|CREDENTIALS?)"
    r"|KEYS?|PASS|PAT|(?<=_)PWD"
    r")(?:_|\d*$)"
)
_NO_SECRET = re.compile(r"(?:^|_)PUBLIC_?KEYS?(?:_|$)")

ALWAYS = {"CLEW": "1", "GIT_EDITOR": "true"}
"""Tells programs who runs them, and git that nobody can type into an editor."""


def is_secret(name: str) -> bool:
    """Does a variable of this name usually hold a secret?"""
    upper = name.upper()
    return bool(_SECRET.search(upper)) and not _NO_SECRET.search(upper)


def child_environment(
    own: Mapping[str, str], *, extra: Mapping[str, str], passed: Iterable[str] = ()
) -> dict[str, str]:
    """Return the environment for a child.

    Args:
        own: The environment of this process.
        extra: Variables that were given for children; never left out.
        passed: Names, with `*` for anything, that are passed on although they look secret.
    """
    patterns = tuple(passed)
    kept = {
        name: value
        for name, value in own.items()
        if not is_secret(name) or any(fnmatchcase(name, pattern) for pattern in patterns)
    }
    return {**kept, **ALWAYS, **extra}

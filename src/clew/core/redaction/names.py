"""Which names announce a secret: `api_key`, `clientSecret` and `DB_PASS`, not `max_tokens`.

A name is cut into its words, so that a word inside a longer one (`secretary`, `tokenizer`) never
counts, and its last words decide: `password_hint` is a hint and `token_count` a count.
"""

import re
from enum import Enum, auto
from functools import lru_cache

from msgspec import Struct

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
MAX_NAME = 80


class Sort(Enum):
    """What a name promises about its value, and so how much the value must look like one."""

    PHRASE = auto()
    """A password: anything at all, with blanks or without."""
    HEADER = auto()
    """Credentials or a cookie, perhaps behind the name of their scheme; or one word about them."""
    KEY = auto()
    """An API key or the like: one word."""
    TOKEN = auto()
    """Perhaps a credential, perhaps a token of a language: one long word that is no plain word."""
    HINT = auto()
    """`NAME_KEY`, `auth`: only a long value that looks random."""


class Name(Struct, frozen=True):
    """What is known about a secret from its name."""

    kind: str
    """What stands in the place of the value."""
    sort: Sort


_PASSWORD = Name("password", Sort.PHRASE)
_SECRET = Name("secret", Sort.PHRASE)
_KEY = Name("key", Sort.KEY)
_SURE_TOKEN = Name("token", Sort.KEY)
_TOKEN = Name("token", Sort.TOKEN)
_HINT = Name("secret", Sort.HINT)
_CONNECTION = Name("connection-string", Sort.PHRASE)


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _all(text: str, name: Name) -> dict[str, Name]:
    return dict.fromkeys(text.split(), name)


_SINGLE = {
    **_all("passwords pwd passcode passwort", _PASSWORD),
    **_all("secret secrets", _SECRET),
    **_all("credential credentials creds", Name("credentials", Sort.HEADER)),
    **_all("authorization", Name("authorization", Sort.HEADER)),
    **_all("cookie cookies", Name("cookie", Sort.HEADER)),
    **_all("connectionstring", _CONNECTION),
    **_all("apikey apikeys secretkey privatekey accesskey authkey", _KEY),
    **_all("authtoken accesstoken refreshtoken", _SURE_TOKEN),
    **_all("auth", _HINT),
}
_KEYS = _set(
    "access account admin api app application auth client consumer decryption deploy encryption"
    " license master private root secret service session shared signing ssh storage subscription"
    " webhook"
)
"""`… key` is a secret after one of these."""
_HARMLESS_KEYS = _set(
    "cache composite dedup foreign group hash host idempotency index known lookup map object"
    " partition primary public publishable registry routing row sort surrogate unique"
)
_HARMLESS_TOKENS = _set(
    "added bos cancel cancellation cls continuation control count cur current end eos first image"
    " input last lex mask max min next num output pad page parse prev previous prompt sep sop"
    " special start stop sync total unk whitespace"
)
"""`… token` of a language model, of a parser, or of a list that comes in pages."""
_SECRET_TOKENS = _set(
    "access api app auth bearer bot client csrf id oauth personal private refresh secret security"
    " service session user xsrf"
)
"""`… token` is a secret after one of these, and `… tokens` after nothing else."""
_PASS_OWNERS = _set(
    "admin auth database db email ftp ldap login mail mysql pg postgres proxy redis root smtp ssh"
    " sudo user"
)
_TAILS = _set(
    "b64 base base64 current data default dev live local new old pem plain plaintext prod"
    " production raw staging test text value"
)
"""Words behind the one that matters: `API_KEY_PROD`, `client-key-data`."""
_QUESTIONS = _set(
    "allow can change check create disable enable expire fetch forgot generate get has hide is load"
    " make max min needs no num parse print read require requires reset rotate should show skip"
    " use validate verify with without"
)
"""First words of flags and functions: `show_password`, `get_token`."""


@lru_cache(maxsize=8192)
def judge(name: str) -> Name | None:
    """Say what the value beside `name` is expected to be; None when it is no secret."""
    if len(name) > MAX_NAME:
        return None
    parts = words(name)
    while len(parts) > 1 and (parts[-1] in _TAILS or parts[-1].isdigit()):
        parts.pop()
    if not parts or (len(parts) > 1 and parts[0] in _QUESTIONS):
        return None
    before = parts[-2] if len(parts) > 1 else ""
    return _by_last(parts[-1], before, is_variable=name.isupper() and "_" in name)


def _by_last(last: str, before: str, *, is_variable: bool) -> Name | None:
    match last:
        case "key" | "keys" if before in _KEYS:
            return _KEY
        case "key" if is_variable and before not in _HARMLESS_KEYS:
            return _HINT
        case "token" | "tokens" if before in _SECRET_TOKENS:
            return _SURE_TOKEN
        case "token" if before not in _HARMLESS_TOKENS:
            return _TOKEN
        case "pass" | "pw" if before in _PASS_OWNERS:
            return _PASSWORD
        case "string" if before == "connection":
            return _CONNECTION
        case _ if last.endswith(("password", "passwd", "passphrase")):
            return _PASSWORD
        case _:
            return _SINGLE.get(last)


def wanted(name: str, extra: frozenset[str]) -> Name | None:
    """Judge `name`, and take it for a secret when a caller listed it in `extra`."""
    return _SECRET if extra and plain(name) in extra else judge(name)


def words(name: str) -> list[str]:
    """Cut a name into its words, in lower case."""
    return [word.lower() for word in _WORD.findall(name)]


def plain(name: str) -> str:
    """Return a form in which `api_key`, `API-Key` and `apiKey` are equal."""
    return "".join(words(name))

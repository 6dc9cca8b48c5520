"""Classification of names and values: is `value` beside `name` a secret?

Names such as `api_key`, `clientSecret` and `DB_PASS` announce a secret; `max_tokens` does not.
A name is split into words, so `secretary` and `tokenizer` do not match, and the last words
decide: `password_hint` is a hint and `token_count` a count.

A quoted value counts as a value. A bare word may be a variable, a type or other code, so it
must look random to count as a secret.
"""

import re
from enum import Enum, auto
from functools import lru_cache

from msgspec import Struct

from clew.core.redaction.marks import MARK

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
MAX_NAME = 80


class SecretSort(Enum):
    """What a name says about its value, which defines how strictly the value is checked."""

    PHRASE = auto()
    """A password: any text, with or without spaces."""
    HEADER = auto()
    """Credentials or a cookie, possibly after the name of a scheme."""
    KEY = auto()
    """An API key or similar: one word."""
    TOKEN = auto()
    """A credential or a token of a language: one long word that is not plain prose."""
    HINT = auto()
    """`NAME_KEY`, `auth`: only a long value that looks random."""


class SecretName(Struct, frozen=True):
    """The kind of secret that a name announces."""

    kind: str
    """The kind in `[redacted:kind]`."""
    sort: SecretSort


_PASSWORD = SecretName("password", SecretSort.PHRASE)
_SECRET = SecretName("secret", SecretSort.PHRASE)
_KEY = SecretName("key", SecretSort.KEY)
_SURE_TOKEN = SecretName("token", SecretSort.KEY)
_TOKEN = SecretName("token", SecretSort.TOKEN)
_HINT = SecretName("secret", SecretSort.HINT)
_CONNECTION = SecretName("connection-string", SecretSort.PHRASE)


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _name_all(text: str, name: SecretName) -> dict[str, SecretName]:
    return dict.fromkeys(text.split(), name)


_SINGLE = {
    **_name_all("passwords pwd passcode passwort", _PASSWORD),
    **_name_all("secret secrets", _SECRET),
    **_name_all("credential credentials creds", SecretName("credentials", SecretSort.HEADER)),
    **_name_all("authorization", SecretName("authorization", SecretSort.HEADER)),
    **_name_all("cookie cookies", SecretName("cookie", SecretSort.HEADER)),
    **_name_all("connectionstring", _CONNECTION),
    **_name_all("apikey apikeys secretkey privatekey accesskey authkey", _KEY),
    **_name_all("authtoken accesstoken refreshtoken", _SURE_TOKEN),
    **_name_all("auth", _HINT),
}
_KEYS = _word_set(
    "access account admin api app application auth client consumer decryption deploy encryption"
    " license master private root secret service session shared signing ssh storage subscription"
    " webhook"
)
"""Words before `key` that make it a secret."""
_HARMLESS_KEYS = _word_set(
    "cache composite dedup foreign group hash host idempotency index known lookup map object"
    " partition primary public publishable registry routing row sort surrogate unique"
)
_HARMLESS_TOKENS = _word_set(
    "added bos cancel cancellation cls continuation control count cur current end eos first image"
    " input last lex mask max min next num output pad page parse prev previous prompt sep sop"
    " special start stop sync total unk whitespace"
)
"""Words before `token` that make it one of a language model, a parser or a paged list."""
_SECRET_TOKENS = _word_set(
    "access api app auth bearer bot client csrf id oauth personal private refresh secret security"
    " service session user xsrf"
)
"""Words before `token` or `tokens` that make it a secret."""
_PASS_OWNERS = _word_set(
    "admin auth database db email ftp ldap login mail mysql pg postgres proxy redis root smtp ssh"
    " sudo user"
)
_TAILS = _word_set(
    "b64 base base64 current data default dev live local new old pem plain plaintext prod"
    " production raw staging test text value"
)
"""Trailing words that are ignored: `API_KEY_PROD`, `client-key-data`."""
_QUESTIONS = _word_set(
    "allow can change check create disable enable expire fetch forgot generate get has hide is load"
    " make max min needs no num parse print read require requires reset rotate should show skip"
    " use validate verify with without"
)
"""First words of flags and functions: `show_password`, `get_token`."""


@lru_cache(maxsize=8192)
def classify_name(name: str) -> SecretName | None:
    """Return the kind of secret that `name` announces, or None."""
    if len(name) > MAX_NAME:
        return None
    parts = split_words(name)
    while len(parts) > 1 and (parts[-1] in _TAILS or parts[-1].isdigit()):
        parts.pop()
    if not parts or (len(parts) > 1 and parts[0] in _QUESTIONS):
        return None
    before = parts[-2] if len(parts) > 1 else ""
    return _classify_by_last(parts[-1], before, is_variable=name.isupper() and "_" in name)


def _classify_by_last(last: str, before: str, *, is_variable: bool) -> SecretName | None:
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


def classify_name_or_extra(name: str, extra: frozenset[str]) -> SecretName | None:
    """Classify `name`; a name in `extra` always announces a secret."""
    return _SECRET if extra and normalize_name(name) in extra else classify_name(name)


def split_words(name: str) -> list[str]:
    """Split a name into its words, in lower case."""
    return [word.lower() for word in _WORD.findall(name)]


def normalize_name(name: str) -> str:
    """Return a form that is equal for `api_key`, `API-Key` and `apiKey`."""
    return "".join(split_words(name))


_PLACEHOLDER_WORDS = _word_set(
    "any array boolean bool bytes char date dict float hash hidden int integer list map nil none"
    " null number object optional secretbytes secretstr set str string text tuple type undefined"
    " unknown uuid varchar void"
    " bar baz changeit changeme dummy empty example fake foo foobar lorem masked mock mysecret"
    " n/a na no omitted pass passwd password passwort pw qux redacted removed required"
    " sample secret stub tbd test testing tests todo token true false unset value xxx yes"
)
"""Values that are no secrets in any spelling: names of types, and words that everybody uses."""
_PLACEHOLDER = re.compile(
    r"""\$[{(] | \$[A-Za-z_]\w*$ | <[^<>]*>?$ | [#{]?\{[^{}]*\}{1,2}$ | %\( | %\w*%$ | %[a-z]$
    | \[redacted | [*•.…_x-]+$ | [\w-]{0,8}(?:\.\.\.|…)$
    | your[-_\ ] | (?:replace|insert|enter|add)[-_\ ](?:with[-_\ ])?your[-_\ ]
    | (?:replace|insert|fill)[-_\ ]?(?:me|it|this|in)\W*$ | (?:[A-Z]+[-_])+here$
    | (?:example|placeholder|dummy|fake|sample|test|my)
      [-_\ ]?(?:api|db|user)?[-_\ ]?(?:pass|passwd|password|secret|token|key|value)?[-_]?\d{0,3}$
    | change[-_\ ]?(?:me|it|this)\W*\d{0,3}$ | redacted | put[-_\ ](?:your|the)[-_\ ]
    | [A-Za-z_][\w.]*\( | (?:os|process|import\.meta)\.env""",
    re.IGNORECASE | re.VERBOSE,
)
"""Placeholders, variables, templates and calls."""
_TEMPLATE = re.compile(r"\{\w*\}|%\(\w+\)|%[sdr](?!\w)")
_WORDY = re.compile(r"[A-Za-z]+(?:[-_./:\\ ][A-Za-z]+)*[-_.]?\d{0,4}")
_DOTTED = re.compile(r"[A-Za-z_$][\w$]{0,18}(?:\.[A-Za-z_$][\w$]{0,30})+")
_CODE = re.compile(r"[()\[\]{}<>|]")
_DIGIT = re.compile(r"[0-9]")
_DIGITS = re.compile(r"[0-9].*[0-9]", re.DOTALL)
_LETTER = re.compile(r"[A-Za-z]")
_BLANK = re.compile(r"\s")
SCHEME = r"(?:Basic|Bearer|Token|Digest|Negotiate|ApiKey|Key|Bot|AWS4-HMAC-SHA256)[ \t]+"
_SCHEME = re.compile(SCHEME, re.IGNORECASE)
_PARAMETER = re.compile(r"""[A-Za-z]\w*=["\w]""")
"""Credentials such as `username="…", response="…"` extend to the end of the line."""
_IDENTIFIER = re.compile(r"[A-Za-z]+(?:[-_][A-Za-z]+)+")
_REFERENCE = re.compile(r"[a-z][a-z0-9+.-]*://|arn:|[.~]{0,2}(?:/[A-Za-z._-]+\d{0,3})+/?$")
"""A URL or a path: it says where the secret is stored."""
_LONG_WORD = 16
"""Below this, letters alone are a word."""


class ValueForm(Enum):
    """Where a value was found, which says how certain it is that it is one."""

    FIELD = auto()
    """A field of a document, with its key."""
    QUOTED = auto()
    """A quoted string in a text."""
    BARE = auto()
    """A word without quotes."""


def is_secret(value: str, name: SecretName, form: ValueForm) -> bool:
    """Return whether `value`, found beside `name`, must be redacted."""
    if not value or is_placeholder(value):
        return False
    if form is ValueForm.FIELD:
        return _is_field(value, name)
    if _REFERENCE.match(value) or _TEMPLATE.search(value):
        return False
    return _is_quoted(value, name) if form is ValueForm.QUOTED else _is_bare(value, name)


def is_placeholder(value: str) -> bool:
    """Return whether `value` is a placeholder, or redacted already."""
    if MARK in value or value.lower().rstrip(".!?,;") in _PLACEHOLDER_WORDS:
        return True
    return _PLACEHOLDER.match(value) is not None


def _is_field(value: str, name: SecretName) -> bool:
    if name.sort is SecretSort.KEY:
        return _BLANK.search(value) is None
    return _is_quoted(value, name)


def _is_quoted(value: str, name: SecretName) -> bool:
    has_blank = _BLANK.search(value) is not None
    odd = has_blank or _CODE.search(value) is not None
    match name.sort:
        case SecretSort.PHRASE:
            # `"password": "Enter your password"` is the label of a field.
            return not (name.kind in value.lower() and (has_blank or len(value) == len(name.kind)))
        case SecretSort.HEADER:
            is_long = len(value) >= _LONG_WORD and not has_blank
            return is_long or "=" in value or _DIGIT.search(value) is not None
        case SecretSort.KEY:
            return len(value) >= 4 and not odd and not _IDENTIFIER.fullmatch(value)
        case SecretSort.TOKEN:
            is_word = len(value) < _LONG_WORD and value.isalpha() and value.islower()
            return len(value) >= 8 and not odd and not is_word and not _IDENTIFIER.fullmatch(value)
        case SecretSort.HINT:
            return not odd and looks_random(value, 16)


def _is_bare(value: str, name: SecretName) -> bool:
    if _CODE.search(value):
        return False
    match name.sort:
        case SecretSort.PHRASE if name.kind == "password":
            return len(value) >= 5 and _DIGIT.search(value) is not None
        case SecretSort.PHRASE | SecretSort.HEADER | SecretSort.KEY:
            return looks_random(value, 8)
        case SecretSort.TOKEN:
            return looks_random(value, 10)
        case SecretSort.HINT:
            return looks_random(value, 16)


def looks_random(value: str, least: int) -> bool:
    """Return whether `value` has `least` characters, letters and digits, and is not prose."""
    return (
        len(value) >= least
        and _DIGITS.search(value) is not None
        and _LETTER.search(value) is not None
        and not _WORDY.fullmatch(value)
        and not _DOTTED.fullmatch(value)
    )


def find_secret_part(value: str, name: SecretName, form: ValueForm) -> tuple[int, int]:
    """Return start and end of the secret in `value`; `(0, 0)` if there is none.

    The scheme before credentials stays visible, and so does text after them.
    """
    scheme = _SCHEME.match(value) if name.sort is SecretSort.HEADER else None
    if scheme is None:
        return (0, len(value)) if is_secret(value, name, form) else (0, 0)
    rest = value[scheme.end() :]
    if not _PARAMETER.match(rest):
        rest, name = rest.partition(" ")[0], SecretName(name.kind, SecretSort.TOKEN)
    start, end = scheme.end(), scheme.end() + len(rest)
    return (start, end) if is_secret(rest, name, ValueForm.QUOTED) else (0, 0)

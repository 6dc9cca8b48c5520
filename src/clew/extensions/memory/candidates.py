"""Memory candidates: extract facts from text, and decide whether they may be stored.

`MemoryCandidateExtractor` finds sentences that ask to be remembered. `MemoryPolicyEvaluator`
decides to save, queue or skip a fact; secrets and personal numbers are always skipped.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from clew.core.redaction import redact
from clew.core.text import one_line
from clew.extensions.memory.facts import DEFAULT_TOPIC, MAX_FACT, FactKind

_MAX_TEXT = 240
"""Characters of a candidate; longer sentences are ignored."""


class MemoryCandidate(Struct, frozen=True, kw_only=True):
    """A fact found in a text."""

    text: str
    kind: FactKind
    confidence: float
    topic: str = DEFAULT_TOPIC


class Cue(Struct, frozen=True):
    """A pattern for sentences with a fact, which is in its group `fact`."""

    pattern: re.Pattern[str]
    kind: FactKind
    confidence: float


def make_cue(pattern: str, kind: FactKind, confidence: float) -> Cue:
    """Return a cue; the pattern ignores case and must match a whole sentence."""
    return Cue(re.compile(pattern, re.IGNORECASE), kind, confidence)


_MARK_BEFORE_FACT = r"(?: ?[:：,] ?| [-–—]+ )"
"""Punctuation between a cue and its fact."""
CUES: Final[tuple[Cue, ...]] = (
    make_cue(
        rf"(?:please,? |and |also,? )*remember(?: this| that)?(?:{_MARK_BEFORE_FACT})(?P<fact>.+)",
        "project",
        0.9,
    ),
    make_cue(r"(?:please,? |and |also,? )*remember (?:that |to )(?P<fact>.+)", "project", 0.9),
    make_cue(rf"(?:for|as) (?:future )?reference{_MARK_BEFORE_FACT}(?P<fact>.+)", "reference", 0.9),
    make_cue(
        r"(?:please,? )?(?P<fact>(?:don['’]t|do not|never|always)(?! mind)[ :,].+)",
        "feedback",
        0.75,
    ),
    make_cue(
        rf"(?:from now on|in future|in the future)(?:{_MARK_BEFORE_FACT}| )(?P<fact>.+)",
        "feedback",
        0.85,
    ),
    make_cue(r"(?P<fact>(?:I|we) (?:always |usually |strongly )?prefer[ :,].+)", "user", 0.75),
    make_cue(r"(?P<fact>(?:I am|I['’]m|my name is|call me)[ :].+)", "user", 0.6),
    make_cue(
        r"(?P<fact>(?:this|our|the) project (?:uses|needs|requires|has)[ :].+)", "project", 0.75
    ),
    make_cue(r"(?P<fact>.+?)(?:을|를|다는 것을|라는 것을)? 기억해.*", "project", 0.9),
)
_SENTENCE_END = re.compile(r"(?<=[.!?。])\s+|\n+")
_FENCE = re.compile(r"^[ \t]*(```|~~~).*?^[ \t]*\1[^\n]*$", re.MULTILINE | re.DOTALL)
_LEAD = re.compile(r"^(?:[-*+>]\s+)+")


class MemoryCandidateExtractor:
    """Finds candidates by cues. It decides nothing and stores nothing.

    Args:
        cues: The patterns to look for; in a sentence the first match wins.
    """

    def __init__(self, cues: Sequence[Cue] = CUES) -> None:
        self._cues = tuple(cues)

    def extract(self, text: str) -> tuple[MemoryCandidate, ...]:
        """Return the candidates in a text in order, each once. Code blocks are skipped."""
        found: dict[str, MemoryCandidate] = {}
        for sentence in _sentences(text):
            if candidate := self._candidate(sentence):
                found.setdefault(candidate.text.casefold(), candidate)
        return tuple(found.values())

    def _candidate(self, sentence: str) -> MemoryCandidate | None:
        if len(sentence) > _MAX_TEXT or sentence.endswith("?"):
            return None
        for known in self._cues:
            if match := known.pattern.fullmatch(sentence):
                fact = match["fact"].strip(" .!。")
                if fact:
                    return MemoryCandidate(text=fact, kind=known.kind, confidence=known.confidence)
        return None


def _sentences(text: str) -> Iterator[str]:
    for piece in _SENTENCE_END.split(_FENCE.sub("\n", text)):
        if sentence := _LEAD.sub("", one_line(piece)):
            yield sentence


PolicyMode: TypeAlias = Literal["disabled", "approval_required", "auto_save"]
PolicyAction: TypeAlias = Literal["save", "queue", "skip"]


class PolicyDecision(Struct, frozen=True):
    """What to do with a fact, and why."""

    action: PolicyAction
    why: str = ""
    """For `skip`: the reason, without the fact."""


class MemoryPolicyEvaluator:
    """Decides whether facts are saved, queued or skipped. It has no state.

    Args:
        mode: `disabled` skips all facts, `approval_required` queues them, and `auto_save` saves
            those with enough confidence. Sensitive facts are skipped in every mode.
        certain: The least confidence with which `auto_save` saves.
    """

    def __init__(self, mode: PolicyMode = "approval_required", *, certain: float = 0.85) -> None:
        self.mode = mode
        self.certain = certain

    def evaluate(self, text: str, *, confidence: float = 1.0) -> PolicyDecision:
        """Decide what to do with a fact."""
        if self.mode == "disabled":
            return PolicyDecision("skip", "The memory is disabled.")
        if why := find_objection(text):
            return PolicyDecision("skip", why)
        if self.mode == "auto_save" and confidence >= self.certain:
            return PolicyDecision("save")
        return PolicyDecision("queue")


def find_objection(text: str) -> str:
    """Return why a fact may not be stored at all; empty if it may."""
    if not one_line(text):
        return "The fact is empty."
    if len(text) > MAX_FACT:
        return f"It is longer than {MAX_FACT:,} characters. Shorten it, or split it."
    if kind := find_secret(text):
        return f"It seems to contain something secret or personal ({kind}), so it is not stored."
    return ""


_MARK = re.compile(r"\[redacted:([\w-]+)\]")
_UNSEEN = re.compile(r"[\u00ad\u034f\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_NAMED = re.compile(
    r"""\b(?:(?P<word>pass(?:word|phrase|code|wd)|pwd)|pin(?:[ ](?:code|number))?|secret(?:[ ]key)?
    |(?:api|access|private|secret|auth)[ _-]?(?:key|token)|token|credentials?)\b
    (?:[ ](?:for|of|to|on)(?:[ ][\w.@-]+){1,4})?
    (?:[ ](?:is|was|are|will[ ]be|equals)[ ]|[ ]?(?:[:=]|->)[ ]?|(?(word)[ ]|(?!)))
    ["'`]?(?P<value>[^\s"'`]{4,})""",
    re.VERBOSE | re.IGNORECASE,
)
"""A secret in plain words: `the password for the router is …`."""
_ORDINARY = re.compile(
    r"[A-Za-z]+(?:['’-][A-Za-z]+)*|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|v?\d+(?:\.\d+)*"
)
_IDENTITY = re.compile(
    r"""(?:\b(?:ssn|social[ ]security|national[ ]id(?:entity|entification)?|passport|tax[ ]id
    |driver'?s?[ ]licen[cs]e|aadhaar|resident[ ]registration)\b|(?:주민등록|여권|운전면허)번호)
    [^\d\n]{0,40}?(?P<value>[A-Z]{0,3}\d[\dA-Z -]{4,})""",
    re.VERBOSE | re.IGNORECASE,
)
_SSN = re.compile(r"(?<![\w-])(?!000|666|9)\d{3}([- ])(?!00)\d\d\1(?!0000)\d{4}(?![\w-])")
_CARD_NAMED = re.compile(
    r"(?:card[ ]number|credit[ ]card|카드번호)[^\d\n]{0,30}?\d(?:[ -]?\d){11,18}", re.IGNORECASE
)
_CARD = re.compile(
    r"(?<!\w)(?=([2-6](?:\d{12,18}|\d{3}(?:[ -]?\d{4}){3}|\d{3}[ -]\d{6}[ -]\d{5}))(?!\w))"
)
"""The form of a payment-card number. The check digit decides: order numbers look alike."""


def find_secret(text: str) -> str:
    """Return the kind of secret in `text`, such as `github-token`; empty if there is none."""
    for variant in _variants(text):
        if found := _secret(variant) or _password(variant) or _identity(variant):
            return found
    return ""


def _variants(text: str) -> Iterator[str]:
    """Yield the text as it is, and without invisible characters and unusual digits."""
    yield text
    plain = unicodedata.normalize("NFKC", _UNSEEN.sub("", text))
    digits = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in plain)
    yield one_line(digits)


def _secret(text: str) -> str:
    cleaned = redact(text)
    if cleaned == text:
        return ""
    before = _MARK.findall(text)
    kinds = [kind for kind in _MARK.findall(cleaned) if kind not in before]
    return kinds[0] if kinds else "secret"


def _password(text: str) -> str:
    for found in _NAMED.finditer(text):
        value = found["value"].rstrip(".,;:!?)")
        if len(value) >= 4 and _looks_secret(found, value):
            return "password or key"
    return ""


def _looks_secret(found: re.Match[str], value: str) -> bool:
    if found[0].lower().startswith(("pin", "passcode")):
        return value.isdigit() or not _ORDINARY.fullmatch(value)
    has_digit = any(c.isdigit() for c in value)
    has_letter = any(c.isalpha() for c in value)
    is_path = "/" in value or value.startswith(("$", "<", "{", "["))
    return has_digit and has_letter and not is_path and not _ORDINARY.fullmatch(value)


def _identity(text: str) -> str:
    if _CARD_NAMED.search(text) or any(
        _has_check_digit(found[1]) for found in _CARD.finditer(text)
    ):
        return "payment-card number"
    if _SSN.search(text) or any(
        sum(c.isdigit() for c in found["value"]) >= 5 for found in _IDENTITY.finditer(text)
    ):
        return "number of an identity document"
    return ""


def _has_check_digit(number: str) -> bool:
    """Return whether the last digit is right by the Luhn formula."""
    digits = [int(c) for c in number if c.isdecimal()]
    doubled = (digit * 2 for digit in digits[-2::-2])
    return (sum(digits[::-2]) + sum(d - 9 if d > 9 else d for d in doubled)) % 10 == 0

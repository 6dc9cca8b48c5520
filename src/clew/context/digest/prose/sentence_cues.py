"""Sentence cues: what a sentence of an agent's prose is about, and how much it says.

The cues are ordinary words of reports about work on software ("because", "root cause", "still
missing"), not words of a project. A sentence without a cue says little, unless it names things.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum


class Topic(StrEnum):
    """What a sentence is about; also the heading under which it is quoted."""

    DECISION = "Decisions and reasons"
    FAILURE = "What failed or was rejected"
    DISCOVERY = "What was found"
    OUTCOME = "Outcomes"
    OPEN = "Open items and next steps"


_CUE_WORDS: dict[Topic, Sequence[tuple[float, str]]] = {
    Topic.DECISION: (
        (
            3.0,
            r"decided|decision|(?:we|i) (?:chose|picked)|chosen|opted|trade-?offs?|rationale"
            r"|settled on|agreed|by design|intentional(?:ly)?|on purpose|deliberate(?:ly)?",
        ),
        (2.5, r"instead of|rather than|in favou?r of|the reason|reasons?:|why this|lean towards?"),
        (2.0, r"because|since (?:the|we|it|there)|therefore|that['’]s why|so that|due to"),
        (1.5, r"should (?:not|only|never|always)|must|approach|recommend\w*|option [a-c1-3]"),
    ),
    Topic.FAILURE: (
        (
            3.0,
            r"(?:does|did)(?:n['’]t| not) work|still fail\w*|broken?|reverted|rolled back"
            r"|abandon\w*|ruled out|not viable|won['’]t work|regress\w*|dead end|no effect",
        ),
        (2.0, r"fail(?:s|ed|ing|ures?)|crash(?:es|ed)?|rejected|blocked|unable to|wrong(?:ly)?"),
        (1.0, r"cannot|can['’]t|incorrect\w*|mistakes?"),
    ),
    Topic.DISCOVERY: (
        (
            4.0,
            r"root cause|the (?:real |actual |main |core )?(?:problem|issue|bug|cause)"
            r" (?:is|was|here)|turns out|culprit|same (?:bug|issue|problem|pattern|mistake)",
        ),
        (
            3.0,
            r"found|discovered|confirm(?:s|ed)|verified that|identified|key (?:finding|insight)s?"
            r"|remaining (?:callers?|usages?|references?|places?|call sites?)|callers? (?:of|are)"
            r"|called (?:from|by)|also (?:in|has|affects)|only (?:place|caller|usage)"
            r"|no (?:other )?callers?|dead code|call sites?|findings?",
        ),
        (
            2.0,
            r"bugs?|race condition|missing|never (?:called|set|used|runs?)|happens when|leaks?"
            r"|duplicat\w+|inconsisten\w+|overwrit\w+|hard-?coded|defaults? to|actually",
        ),
    ),
    Topic.OUTCOME: (
        (
            3.0,
            r"all (?:\d+ )?(?:tests?|checks?|reviews?) (?:\w+ )?pass\w*|committed|pushed|merged"
            r"|released|pr (?:is|created)|done|completed?|fixed|resolved|works now",
        ),
        (
            2.0,
            r"added|created|implemented|removed|renamed|moved|replaced|updated|refactored"
            r"|extracted|wired|introduced|pass(?:es|ing|ed)|clean|saves?",
        ),
    ),
    Topic.OPEN: (
        (
            4.0,
            r"next steps?|to-?do|remaining (?:\w+ ){0,3}(?:work|items?|tasks?|issues?|steps?)"
            r"|left to do"
            r"|still (?:needs?|open|missing|to do|pending)|follow-?ups?|unresolved|outstanding"
            r"|pending|deferred|out of scope|not yet|open questions?",
        ),
        (2.0, r"needs? (?:to be|more|your)|in (?:the )?future|for later"),
    ),
}
_FOREIGN = 2.5
"""Weight of a cue in a language other than English."""
_FOREIGN_WORDS: dict[Topic, str] = {
    Topic.DECISION: (
        r"entschieden|entscheidung|stattdessen|anstatt|weil|deshalb|daher|décidé|décision"
        r"|parce que|plutôt que|au lieu de|decidid[oa]|decisión|porque|en lugar de|en vez de"
    ),
    Topic.FAILURE: (
        r"fehlgeschlagen|schl[aä]gt fehl|schlug fehl|gescheitert|funktioniert nicht|kaputt"
        r"|échou[eé]\w*|échec|ne (?:marche|fonctionne) pas|falló|fallan?|no funciona"
    ),
    Topic.DISCOVERY: (
        r"ursache|gefunden|herausgefunden|la cause|trouvé|découvert|la causa|encontrad[oa]"
    ),
    Topic.OUTCOME: (
        r"erledigt|behoben|hinzugefügt|umgesetzt|fertiggestellt|terminé|corrigé|ajouté|terminad[oa]"
        r"|corregid[oa]|añadid[oa]"
    ),
    Topic.OPEN: (
        r"noch nicht|noch offen|fehlt noch|steht noch aus|nächste[rn]? schritte?|prochaine étape"
        r"|reste à|pas encore|pendientes?|siguiente paso|próximo paso|todavía no"
    ),
}
_UNSPACED_WORDS: dict[Topic, str] = {
    Topic.DECISION: "因为|因為|决定|決定|因此|而不是|ため|ことにし|때문|결정",
    Topic.FAILURE: "失败|失敗|报错|報錯|无法|無法|できな|動かな|실패",
    Topic.DISCOVERY: "原因|发现|發現|見つか|わかりまし|判明|발견|원인",
    Topic.OUTCOME: "完成|已修复|已修復|已添加|已通过|完了|修正しま|追加しま|완료|수정했",
    Topic.OPEN: "待办|待辦|下一步|尚未|还需要|還需要|次は|まだ|残り|未対応|다음 단계|아직",
}
"""Cues of scripts in which words are not separated."""
_CUES = {
    topic: tuple((weight, re.compile(rf"(?<![\w-])(?:{words})(?![\w-])")) for weight, words in cues)
    for topic, cues in _CUE_WORDS.items()
}
_FOREIGN_CUES = {
    topic: ((_FOREIGN, re.compile(rf"\b(?:{words})\b|{_UNSPACED_WORDS[topic]}")),)
    for topic, words in _FOREIGN_WORDS.items()
}
_ANY_CUE = re.compile(
    r"\b(?:" + "|".join(words for cues in _CUE_WORDS.values() for _, words in cues) + r")(?![\w-])"
)
_ANY_FOREIGN_CUE = re.compile(
    rf"\b(?:{'|'.join(_FOREIGN_WORDS.values())})\b|{'|'.join(_UNSPACED_WORDS.values())}"
)
"""Cues are sought in lower case, which is much faster than an expression that ignores case."""
_QUESTION = 3.0
_NARRATION = re.compile(
    r"^(?:(?:now|ok(?:ay)?|good|great|perfect|next|first|then|so|yes)\b[,.!:]? (?:- )?)*"
    r"(?:let me|let['’]?s|i['’]ll|i will|i(?:['’]m| am) (?:(?:just|now|also|still|next) )*"
    r"(?:going|using|checking|reading|reviewing|looking|comparing|pulling|grabbing|gathering"
    r"|inspecting|verifying|running|tracing|scanning|searching|opening|collecting|updating|adding"
    r"|making|writing|wiring|patching|applying|starting|continuing|moving|doing|getting|trying"
    r"|testing|validating|building|committing|waiting|editing|creating|implementing|preparing)"
    r"|i (?:need|want) to"
    r"|i should|i would|i can see|i see|now|need to|running|check(?:ing)?|looking|reading"
    r"|searching|if you (?:want|like|prefer)|if useful|the task is|the user (?:wants|asks|asked"
    r"|is asking|would like))\b",
    re.IGNORECASE,
)
_STATEMENT = re.compile(r" := |[!=]= nil\b|\) \{$|\);$|^\}|=> \{$|^(?:if|for|return) .*[({]$")
"""What a line of code has that was not marked as one, and a sentence has not."""
_GUESS = re.compile(
    r"\b(?:likely|might|may be|maybe|perhaps|probably|presumably|i suspect|i think|i guess"
    r"|could be|seems?|not sure|what if|hmm|wait)\b"
)
_GUESS_COST = 1.5
_INTENTION = re.compile(r"\b(?:i['’]ll|let me|i will)\b")
_INTENTION_COST = 2.0
_CODE = re.compile(r"`[^`\n]*`")
_NAME = re.compile(
    r"`[^`\n]{2,80}`"
    r"|\b[\w./-]+\.[A-Za-z]{1,5}(?::\d+)?\b"  # a file
    r"|\b[a-z]+[A-Z]\w+|\b\w+_\w+"  # an identifier
    r"|\b[0-9a-f]{7,40}\b"  # a hash
)
_VALUE = re.compile(
    r"(?<![\w.#])\d[\d,.]*(?:[%+]| ?[A-Za-zµ]{1,4}\b)?"  # a number, perhaps with a unit
    r"|\bv\d+(?:\.\d+)+|https?://\S+"
)
_VALUE_WORTH, _MOST_VALUES = 0.4, 3
_MOST_NAMES = 4
_LEAST_WORDS = 3
"""A sentence has them beside its names; otherwise it is a reference to a file."""
_USUAL_CHARS = 160


_PUT_OFF = re.compile(
    r"\b(?:defer|follow-?up|out of scope|future|later|not in scope|known (?:issue|limitation))",
    re.IGNORECASE,
)


def is_put_off(text: str) -> bool:
    """Return whether a sentence says that something is left for later on purpose."""
    return _PUT_OFF.search(text) is not None


def is_narration(sentence: str) -> bool:
    """Return whether a sentence only announces what the agent does next."""
    return _NARRATION.match(sentence) is not None


def classify_sentence(sentence: str, *, lead: str = "") -> tuple[Topic, float] | None:
    """Return the topic of a sentence and how much it says, or None if it only narrates or is code.

    Args:
        sentence: A sentence or a list item.
        lead: The line that introduces the list; its cues decide the topic of the items.
    """
    if sentence.endswith(("?", "\uff1f")):
        return Topic.OPEN, _QUESTION
    if is_narration(sentence):
        return None
    prose, lead = _CODE.sub("", sentence.lower()), _CODE.sub("", lead.lower())
    if _STATEMENT.search(prose):
        return None
    names = len(_NAME.findall(sentence))
    cues: Mapping[Topic, Sequence[tuple[float, re.Pattern[str]]]] = _CUES
    if not (_ANY_CUE.search(prose) or _ANY_CUE.search(lead)):
        cues = _FOREIGN_CUES
    if cues is _FOREIGN_CUES and not _ANY_FOREIGN_CUE.search(prose):
        tells = names and len(_NAME.sub("", _CODE.sub("", sentence)).split()) >= _LEAST_WORDS
        return (Topic.DISCOVERY, 0.5 * min(names, _MOST_NAMES)) if tells else None
    weight, topic = max((_weigh(cues[topic], prose), topic) for topic in Topic)
    if lead:
        introduced, heading = max((_weigh(cues[topic], lead), topic) for topic in Topic)
        if introduced:
            weight, topic = max(weight, introduced + 0.5), heading
    score = weight + (0.6 * min(names, _MOST_NAMES) if names else -0.5)
    score += _VALUE_WORTH * min(len(_VALUE.findall(sentence)), _MOST_VALUES)
    score -= _INTENTION_COST if _INTENTION.search(prose) else 0.0
    score -= _GUESS_COST if _GUESS.search(prose) else 0.0
    return topic, score - 0.0025 * max(0, len(sentence) - _USUAL_CHARS)


def _weigh(cues: Sequence[tuple[float, re.Pattern[str]]], text: str) -> float:
    """Return the weight of the strongest cue, a little more if there are several."""
    found = [weight for weight, cue in cues if cue.search(text)]
    return max(found) + 0.5 * (len(found) - 1) if found else 0.0

"""The parts of the memory by themselves: what is sensitive, extracted, allowed and found."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import ConfigError
from clew.extensions.memory import (
    MemoryCandidate,
    MemoryCandidateExtractor,
    MemoryPage,
    MemoryPolicyEvaluator,
    MemoryRetrievalService,
    PendingFact,
    PendingMemoryStore,
)
from clew.extensions.memory.candidates import find_secret, make_cue
from tests.rows import each_row

pytestmark = pytest.mark.req("MEM-1")

CARD = "payment-card number"


@each_row(
    ("text", "kind"),
    [
        ("ghp_" + "a1B2" * 9, "github-token"),
        ("AKIA" + "ABCDEFGH12345678", "aws-access-key"),
        ("postgres://ann:hunter2@db/x", "url-password"),
        ("-----BEGIN PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA" * 8, "private-key"),
        ("password: hunter2", "password"),
        ("The wifi password for the office is Tr0ub4dor&3.", "password or key"),
        ("password hunter2", "password or key"),
        ("the token is a8f3kd92", "password or key"),
        ("my pin is 4921", "password or key"),
        ("pass\u200bword: hun\u200bter2xyz", "password"),
        ("4111111111111111", CARD),
        ("5500-0000-0000-0004", CARD),
        ("amex 3782 822463 10005", CARD),
        ("4111\u200b1111 1111\u00a01111", CARD),
        ("٤١١١١١١١١١١١١١١١", CARD),
        ("credit card 4111111111111112", CARD),
        ("078-05-1120", "number of an identity document"),
        ("my social security number: 123456789", "number of an identity document"),
        ("passport number is X1234567", "number of an identity document"),
    ],
)
def test_what_is_secret_or_personal_is_told_by_its_kind(text: str, kind: str) -> None:
    assert find_secret(f"note: {text}, really") == kind


@each_row(
    "text",
    [
        "count token usage in tests",
        "the token limit is 4096 tokens",
        "the secret is stored in vault",
        "password reset lives in auth/reset2.py",
        "the API key is read from ANTHROPIC_API_KEY",
        "the token is stored in ~/.config/x1",
        "token bucket2 is the algorithm",
        "the pin is soldered to GPIO",
        "built 2024-01-15 at 1700000000000 and 1700000000000000",
        "order 4111111111111112",
        "pi is 3.14159265358979323846",
        "commit 0a1b2c3d4e5f60718293a4b5c6d7e8f901234567",
        "uuid 123e4567-e89b-12d3-a456-426614174000",
        "call 555-123-4567, or 000-12-3456",
        "the SSN is not stored",
        "the passport library needs node 18",
        "months 901301-1234567 and 901232-1234567",
        "[redacted:password] stood here",
    ],
)
def test_ordinary_facts_are_not_taken_for_secrets(text: str) -> None:
    assert find_secret(text) == ""


@given(st.text(max_size=80))
def test_a_card_number_is_found_wherever_it_stands(around: str) -> None:
    assert find_secret(f"{around} 4111 1111 1111 1111 {around}") != ""


def test_candidates_are_sentences_with_a_cue() -> None:
    text = """Please remember that the API is frozen. Nice weather today!
    - From now on, run make check first.
    > I prefer short answers. Do you remember that day?
    ```
    remember that this is code
    ```
    Remember that the API is frozen.
    배포는 금요일에 한다는 것을 기억해 줘."""

    found = MemoryCandidateExtractor().extract(text)

    assert [(one.text, one.kind, one.confidence) for one in found] == [
        ("the API is frozen", "project", 0.9),
        ("run make check first", "feedback", 0.85),
        ("I prefer short answers", "user", 0.75),
        ("배포는 금요일에 한", "project", 0.9),
    ]


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("Remember: always use tabs.", "always use tabs"),
        ("Please remember, we use tabs.", "we use tabs"),
        ("Remember that: tabs only", "tabs only"),
        ("remember — use tabs", "use tabs"),
        ("For future reference - see docs/api.md", "see docs/api.md"),
        ("From now on - use tabs", "use tabs"),
        ("Please, never push", "never push"),
        ("don’t push", "don’t push"),
        ("I’m Albert", "I’m Albert"),
        ("Our project uses: uv", "Our project uses: uv"),
    ],
)
def test_a_cue_may_be_followed_by_punctuation(text: str, fact: str) -> None:
    (found,) = MemoryCandidateExtractor().extract(text)

    assert found.text == fact


@pytest.mark.parametrize("text", ["Always.", "Never mind.", "Remember:", "Remember when it broke."])
def test_a_cue_without_a_fact_is_no_candidate(text: str) -> None:
    assert MemoryCandidateExtractor().extract(text) == ()


def test_a_story_is_no_candidate_and_cues_can_be_given() -> None:
    own = MemoryCandidateExtractor([make_cue(r"merke: (?P<fact>.+)", "reference", 0.5)])

    assert MemoryCandidateExtractor().extract("Remember that " + "x" * 240) == ()
    assert own.extract("Merke: Tabs. Remember that x.") == (
        MemoryCandidate(text="Tabs", kind="reference", confidence=0.5),
    )


@pytest.mark.parametrize(
    ("mode", "confidence", "action"),
    [
        ("disabled", 1.0, "skip"),
        ("approval_required", 1.0, "queue"),
        ("auto_save", 0.85, "save"),
        ("auto_save", 0.84, "queue"),
    ],
)
def test_the_policy_decides_by_mode_and_confidence(
    mode: str, confidence: float, action: str
) -> None:
    policy = MemoryPolicyEvaluator(mode)  # type: ignore[arg-type]

    assert policy.evaluate("Use tabs", confidence=confidence).action == action
    assert policy.evaluate("password: hunter2", confidence=confidence).action == "skip"


PAGES = [
    MemoryPage("build-system", "topics/build-system.md", "# build\n\n- make tests\n- make docs\n"),
    MemoryPage("people", "topics/people.md", "- Ann builds the docs\n- 앤은 오슬로에 산다\n"),
    MemoryPage("style", "topics/style.md", "- Use tabs\n"),
]


@each_row(
    ("query", "topics"),
    [
        ("build", ["build-system", "people"]),
        ("how are the DOCS built by ann?", ["people", "build-system"]),
        ("test", ["build-system"]),
        ("오슬로", ["people"]),
        ("the and for", []),
        ("est", []),
        ("", []),
    ],
)
def test_pages_are_ranked_by_the_words_they_share(query: str, topics: list[str]) -> None:
    assert [one.topic for one in MemoryRetrievalService().find(query, PAGES)] == topics


def test_a_reference_holds_the_lines_that_fit_and_not_too_much() -> None:
    short = MemoryRetrievalService(max_topics=1, max_chars=8)

    assert MemoryRetrievalService().find("docs", PAGES)[0].text == "- make docs"
    assert MemoryRetrievalService().find("style", PAGES)[0].text == "- Use tabs"
    assert [one.text for one in short.find("docs make", PAGES)] == ["- make t\n..."]


def test_the_list_of_those_that_wait_is_a_store_of_its_own(tmp_path: Path) -> None:
    store = PendingMemoryStore(tmp_path / "a" / "b")
    one, two = (PendingFact(id=f"mem_{n}", text="x", topic="t", at=1.5) for n in "12")

    assert [store.put(one), store.put(two), store.put(one)] == [True, True, False]
    assert PendingMemoryStore(tmp_path / "a" / "b").all() == (one, two)
    assert store.remove("mem_1") == one
    with pytest.raises(ConfigError, match="mem_1"):
        store.remove("mem_1")
    assert store.all() == (two,)


def test_the_list_of_those_that_wait_does_not_grow_for_ever(tmp_path: Path) -> None:
    store = PendingMemoryStore(tmp_path / "a" / "b")
    records = [{"id": f"mem_{n}", "text": "x", "topic": "t"} for n in range(500)]
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "pending.json").write_bytes(
        msgspec.json.encode({"version": 1, "records": records})
    )

    with pytest.raises(ConfigError, match="Approve or reject some"):
        store.put(PendingFact(id="mem_x", text="x", topic="t"))

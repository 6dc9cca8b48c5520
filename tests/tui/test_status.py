"""The line below the prompt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.context_state import Basis, Breakdown, ContextState, Status
from clew.tui.status import SessionStatus, count_columns, status_line


def state(
    used: int = 6_151, status: Status = Status.OK, basis: Basis = Basis.EXACT
) -> ContextState:
    return ContextState(
        max_tokens=10_000,
        used_tokens=used,
        status=status,
        basis=basis,
        breakdown=Breakdown(user=used),
    )


STANDING = SessionStatus(
    model="claude-sonnet-4-6", mode="default", name="the maze", context=state()
)
BUSY = SessionStatus(
    model="m",
    mode="plan",
    session_id="0123456789ab",
    context=state(),
    cost_usd=1.234,
    queued=2,
    tasks=1,
)


def text(standing: SessionStatus, width: int = 200) -> str:
    return "".join(piece.text for piece in status_line(standing, width))


def test_a_wide_terminal_shows_all_parts() -> None:
    assert text(STANDING) == (
        "claude-sonnet-4-6 · default · the maze · context 62% · 6,151/10,000 tokens"
    )


def test_cost_queue_and_background_tasks_are_shown() -> None:
    assert text(BUSY) == (
        "m · plan · 01234567 · context 62% · 6,151/10,000 tokens · $1.23 · 2 queued · 1 task"
    )
    assert text(BUSY, 50) == "m · plan · context 62% · $1.23 · 2 queued · 1 task"
    assert text(BUSY, 40) == "m · context 62% · 2 queued · 1 task"


def test_an_estimate_says_that_it_is_one() -> None:
    guess = SessionStatus(model="m", mode="plan", context=state(basis=Basis.ESTIMATED))

    assert text(guess) == "m · plan · context 62% · ~6,151/10,000 tokens"


def test_before_the_first_reading_there_is_no_share() -> None:
    assert text(SessionStatus(model="m", mode="plan")) == "m · plan"


@pytest.mark.parametrize(
    ("status", "colour"),
    [(Status.OK, "green"), (Status.WARNING, "yellow"), (Status.CRITICAL, "red")],
)
def test_the_share_has_the_colour_of_its_status(status: Status, colour: str) -> None:
    pieces = status_line(SessionStatus(model="m", mode="plan", context=state(status=status)), 80)

    assert [piece.text for piece in pieces if piece.style == colour] == ["context 62%"]


@pytest.mark.parametrize(
    ("width", "left"),
    [
        (60, "claude-sonnet-4-6 · default · the maze · context 62%"),
        (45, "claude-sonnet-4-6 · default · context 62%"),
        (35, "claude-sonnet-4-6 · context 62%"),
        (20, "context 62%"),
        (5, "conte"),
    ],
)
def test_the_least_important_part_is_dropped_first(width: int, left: str) -> None:
    assert text(STANDING, width) == left


NAMES = st.text(max_size=40)
CONTEXTS = st.sampled_from([None, state()])
STANDINGS = st.builds(SessionStatus, model=NAMES, mode=NAMES, name=NAMES, context=CONTEXTS)


@given(STANDINGS, st.integers(1, 120))
def test_the_line_never_takes_more_room_than_there_is(standing: SessionStatus, width: int) -> None:
    shown = text(standing, width)

    assert count_columns(shown) <= width
    assert not set(shown) & set("\n\r\t\x1b")
    if standing.context and width >= len("context 62%"):
        assert "context 62%" in shown

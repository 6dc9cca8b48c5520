"""Whatever is done to a session, it holds what a plain model of it holds: see `model`."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.entries import Compacted, Entry, PinChanged
from clew.core.errors import ClewError
from clew.core.messages import Message
from tests.session.model import MOVES, Game, play
from tests.session.plain_model import Model

moves = st.tuples(st.sampled_from(MOVES), st.integers(0, 9_999))
games = st.builds(
    Game,
    moves=st.lists(moves, min_size=4, max_size=16).map(tuple),
    disk=st.booleans(),
    logged=st.booleans(),
    long=st.booleans(),
    ahead=st.booleans(),
)


@pytest.mark.req("SES-1", "STO-1", "STO-3", "LOG-4", "CMP-4")
@settings(max_examples=30)
@given(games)
def test_a_session_is_what_its_model_says_after_every_move(game: Game) -> None:
    with TemporaryDirectory() as folder:
        anyio.run(play, game, Path(folder))


@pytest.mark.req("SES-1", "STO-1", "STO-3", "LOG-4", "CMP-4")
@pytest.mark.parametrize("seed", range(0, 40, 10))
def test_so_it_is_after_long_games_that_are_drawn_by_lot(seed: int, tmp_path: Path) -> None:
    for number in range(seed, seed + 4):
        (tmp_path / str(number)).mkdir()
        anyio.run(play, Game.drawn(random.Random(number), length=25), tmp_path / str(number))


class ForgetsWhatFollowed(Model):
    """Takes an undo for a way back in time."""

    def undo(self, target: int) -> None:
        self.counts = self.before[target]


class UndoesRewindsLikeTheRest(Model):
    """Takes the rewind out of the list, and does not bring back what it left behind."""

    def undo(self, target: int) -> None:
        self.counts = [entry for entry in self.counts if entry.id != target]


class RewindsTooFar(Model):
    """Takes the entry before for the one that was asked for."""

    def rewind(self, entry: Entry, before: int) -> None:
        super().rewind(entry, max(1, before - 1))


class RewindsForGood(Model):
    """Cannot undo a rewind."""

    def rewind(self, entry: Entry, before: int) -> None:
        self.counts = list(self.before[before])


class RewindsPins(Model):
    """Takes pins for a part of the conversation."""

    def rewind(self, entry: Entry, before: int) -> None:
        super().rewind(entry, before)
        self.pinned &= {one.id for one in self.counts}


class NeverLetsGo(Model):
    """Pins, and does not unpin."""

    def take(self, entry: Entry) -> None:
        before = self.pinned
        super().take(entry)
        if isinstance(entry.body, PinChanged) and not entry.body.pinned:
            self.pinned = before


class PutsWordsLast(Model):
    """Lets a summary stand where it was written."""

    def compact(self, shown: list[tuple[int, Message]], entry: Entry) -> list[tuple[int, Message]]:
        made = super().compact(shown, entry)
        return made if made == shown else [*made[1:], made[0]]


class KeepsOldSummaries(Model):
    """Lets a second summary stand beside the first."""

    def compact(self, shown: list[tuple[int, Message]], entry: Entry) -> list[tuple[int, Message]]:
        summaries = {one.id for one in self.counts if isinstance(one.body, Compacted)}
        old = [one for one in shown if one[0] in summaries]
        made = super().compact(shown, entry)
        return [*made[:1], *[one for one in old if one not in made], *made[1:]]


WRONG: tuple[type[Model], ...] = (
    *(ForgetsWhatFollowed, UndoesRewindsLikeTheRest, RewindsTooFar, RewindsForGood),
    *(RewindsPins, NeverLetsGo, PutsWordsLast, KeepsOldSummaries),
)
MOST_GAMES = 120


def random_games() -> Iterator[Game]:
    for seed in range(MOST_GAMES):
        yield replace(
            Game.drawn(random.Random(seed), length=25), disk=False, logged=False, ahead=False
        )


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_a_wrong_model_is_found_out(wrong: type[Model], tmp_path: Path) -> None:
    for number, game in enumerate(random_games()):
        (tmp_path / str(number)).mkdir()
        try:
            anyio.run(play, game, tmp_path / str(number), wrong)
        except (AssertionError, ClewError, pytest.fail.Exception):
            return
    raise AssertionError(f"{MOST_GAMES} games found nothing wrong with it")

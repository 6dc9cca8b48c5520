"""A sample of every corpus of attacks holds, and the table says what happened."""

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from attacks.__main__ import CORPORA
from attacks.corpus import (
    Corpus,
    CorpusResult,
    Outcome,
    Status,
    carry_out,
    run_together,
    select_sample,
)
from attacks.table import PAGE, add_results, format_markdown, format_text, merge

pytestmark = pytest.mark.anyio

SAMPLE = 4


@pytest.mark.slow("starts processes")
@pytest.mark.parametrize("corpus", CORPORA, ids=lambda corpus: corpus.NAME)
async def test_a_sample_of_a_corpus_holds(corpus: Corpus) -> None:
    result = await carry_out(corpus, SAMPLE)

    assert result.select(Status.FAILED) == []
    assert result.outcomes


def test_the_names_of_the_corpora_are_unique() -> None:
    names = [corpus.NAME for corpus in CORPORA]

    assert len(set(names)) == len(names)


async def test_the_table_counts_held_failed_and_skipped_attacks() -> None:
    async def run(sample: int | None = None) -> AsyncIterator[Outcome]:
        yield Outcome("one", Status.HELD)
        yield Outcome("two", Status.FAILED, "it got through")
        yield Outcome("three", Status.SKIPPED, "no sandbox")
        yield Outcome("four", Status.SKIPPED, "no sandbox")

    corpus: Corpus = SimpleNamespace(NAME="made-up", TARGET="nothing gets through", run=run)
    result = await carry_out(corpus)

    row = format_text([result]).splitlines()[1]
    assert row.split()[:1] == ["made-up"]
    assert row.split("through")[1].split()[:3] == ["4", "1", "1"]
    assert "2 (no sandbox)" in row


def test_the_table_replaces_the_one_on_the_page() -> None:
    result = CorpusResult(name="n", target="t", outcomes=[Outcome("one", Status.HELD)], seconds=1)
    page = PAGE.read_text(encoding="utf-8")

    merged = merge(merge(page, "old"), format_markdown([result]))

    assert "| n | t | 1 | 1 | 0 | 0 | 1 |" in merged
    assert "old\n<!-- attacks: end -->" not in merged
    with pytest.raises(LookupError, match="attacks: begin"):
        merge("a page without marks", "table")


def test_runs_of_single_corpora_add_up_to_one_table(tmp_path: Path) -> None:
    def make(name: str, status: Status) -> CorpusResult:
        return CorpusResult(name=name, target="t", outcomes=[Outcome("one", status)], seconds=1)

    file, order = tmp_path / "results.json", ["first", "second"]
    add_results(file, [make("second", Status.FAILED)], order)

    both = add_results(file, [make("first", Status.HELD)], order)
    again = add_results(file, [make("second", Status.HELD)], order)

    assert [result.name for result in both] == order
    assert len(both[1].select(Status.FAILED)) == 1
    assert again == [make("first", Status.HELD), make("second", Status.HELD)]


async def test_attacks_that_run_together_are_all_reported() -> None:
    running: set[int] = set()
    most = 0

    async def attack(case: int) -> list[Outcome]:
        nonlocal most
        running.add(case)
        most = max(most, len(running))
        await anyio.lowlevel.checkpoint()
        running.discard(case)
        return [Outcome(str(case), Status.HELD)]

    found = [outcome.case async for outcome in run_together(range(7), attack, limit=3)]

    assert sorted(found) == list("0123456")
    assert most == 3


@pytest.mark.parametrize("sample", [None, 1, 3, 10, 99])
def test_a_sample_is_spread_over_the_cases(sample: int | None) -> None:
    cases = list(range(10))

    chosen = select_sample(cases, sample)

    assert len(chosen) == min(sample or 10, 10)
    assert len(set(chosen)) == len(chosen)
    assert sample != 3 or list(chosen) == [0, 3, 6]

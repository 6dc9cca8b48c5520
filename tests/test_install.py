"""The progress of `make run`: what a fresh clone shows while pip works."""

import pytest

from scripts.install import Progress

pytestmark = pytest.mark.req("CLI-2")


def test_the_steps_of_pip_are_shown_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress.add("Looking in links: /somewhere\n")
        for number in range(12):
            progress.add(f"Collecting package-{number}>=1 (from clew==0.1.0)\n")
            progress.add(f"  Downloading package_{number}-1.0-py3-none-any.whl (1 kB)\n")
        progress.add("Installing collected packages: package-0, package-1\n")

    first, second, last = capsys.readouterr().out.splitlines()
    assert (first, second) == ("  10 packages found", "  installing 12 packages")
    assert last.startswith("  12 packages in ")

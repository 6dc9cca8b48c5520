"""The prompts that a user typed before."""

import stat
from pathlib import Path

import msgspec

from clew.sdk.prompt_history import PromptHistory


def test_the_history_is_private_and_holds_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "history"
    key = "sk-ant-api03-" + "Ab3dEf6hIj" * 9

    PromptHistory(path).add(f"use {key}\nand the second line")

    assert PromptHistory(path).entries() == ["use [redacted:anthropic-key]\nand the second line"]
    assert key not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_history_redacts_known_secrets_of_any_form(tmp_path: Path) -> None:
    path, known = tmp_path / "history", ["correct horse"]
    history = PromptHistory(path, lambda: known)

    history.add("is it correct horse?")
    known.append("battery staple")
    history.add("or battery staple?")

    assert history.entries() == ["is it [redacted:value]?", "or [redacted:value]?"]


def test_a_history_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(b'"old"\nnot json\n\xff\n"half')
    path.chmod(0o644)

    PromptHistory(path).add("new")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert PromptHistory(path).entries() == ["old", "new"]


def test_a_history_that_cannot_be_kept_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    history = PromptHistory(tmp_path / "file" / "history")

    history.add("lost")
    PromptHistory(tmp_path).add("a folder")

    assert history.entries() == []


def test_a_long_history_loses_its_older_half_and_huge_entries(tmp_path: Path) -> None:
    path = tmp_path / "history"
    line = msgspec.json.encode("x" * 99) + b"\n"
    path.write_bytes(line * 20_000)

    history = PromptHistory(path)
    history.add("y" * 20_001)
    history.add("the newest")

    assert 900_000 < path.stat().st_size < 1_100_000
    entries = history.entries()
    assert set(entries[:-1]) == {"x" * 99}
    assert entries[-1] == "the newest"

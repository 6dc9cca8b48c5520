"""`clew config`, as its own parser and in a folder of its own."""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from clew.cli.config import run_config
from clew.cli.subcommands import add_config
from clew.core.errors import ConfigError
from tests.config.folders import Folders

pytestmark = pytest.mark.req("CFG-1", "CLI-1")

HOOK = {"Stop": [{"hooks": [{"type": "command", "command": "evil \x1b[2J"}]}]}


@dataclass(frozen=True, slots=True)
class Told:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Clew = Callable[..., Told]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    made = Folders(tmp_path)
    made.project.mkdir()
    made.home.mkdir()
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("CLEW_HOME", str(made.clew_home))
    monkeypatch.chdir(made.project)
    return made


@pytest.fixture
def clew(folders: Folders, capsys: pytest.CaptureFixture[str]) -> Clew:
    def run(*arguments: str) -> Told:
        parser = argparse.ArgumentParser()
        add_config(parser)
        code = run_config(parser.parse_args(arguments))
        told = capsys.readouterr()
        return Told(code, told.out, told.err)

    return run


def test_without_settings_there_is_nothing_to_show(clew: Clew) -> None:
    assert clew().out == "no settings; all defaults apply\n"


def test_show_names_files_what_is_withheld_and_what_is_unused(folders: Folders, clew: Clew) -> None:
    folders.put("~/.clew/settings.json", {"language": "Greek", "permissions": {"deny": ["Edit"]}})
    folders.put(
        ".claude/settings.json",
        {"hooks": HOOK, "permissions": {"deny": ["Write"]}, "cleanup\x1b[2J": 1},
    )

    out = clew("show").out

    assert 'language = "Greek"' in out
    assert "# ~/.clew/settings.json, .claude/settings.json" in out
    assert "withheld until you accept this folder with `clew config accept`:" in out
    assert "hooks.Stop[0].hooks[0] runs `evil" in out
    assert "not used by Clew:" in out
    assert "\x1b" not in out


def test_show_as_json_has_everything_but_secrets(folders: Folders, clew: Clew) -> None:
    folders.put(
        "~/.clew/settings.json", {"providers": {"a": {"type": "openai", "apiKey": "hush-hush"}}}
    )
    folders.put(".clew/settings.json", {"model": "gpt-5"})

    report = clew("show", "--json").json

    assert report["settings"] == {"providers": {"a": {"type": "openai", "apiKey": "[redacted]"}}}
    assert report["origins"]["providers.a.type"] == ["~/.clew/settings.json"]
    assert report["withheld"] == [
        {
            "path": str(folders.project / ".clew/settings.json"),
            "key": "model",
            "why": "chooses the model gpt-5",
        }
    ]
    assert report["accepted"] is False


def test_hooks_of_unknown_events_are_named_as_left_out(folders: Folders, clew: Clew) -> None:
    folders.put("~/.claude/settings.json", {"hooks": {"Tomorrow": []}})

    assert "ignored:" in clew("show").out
    assert "Tomorrow" in clew("show", "--json").json["problems"][0]


def test_path_marks_the_files_that_are_there(folders: Folders, clew: Clew) -> None:
    path = folders.put(".claude/settings.json", {})

    lines = clew("path").out.splitlines()

    assert len(lines) == 9
    assert lines[7] == f"+ {path}  (project)"
    assert lines[0] == f"- {folders.clew_home}/clew.toml  (user)"


def test_check_tells_all_that_is_wrong_with_profiles(folders: Folders, clew: Clew) -> None:
    assert (clew("check").code, clew("check").out) == (0, "no problems found\n")
    path = folders.put(
        "~/.clew/settings.json",
        {"currentProvider": "x", "providers": {"a": {}, "b": {"type": "c"}}},
    )

    told = clew("check")

    assert told.code == 1
    assert [line.split(";")[0] for line in told.err.splitlines()] == [
        f"clew: {path}:1:21: currentProvider is 'x', but providers has no such profile",
        f"clew: {path}:1:45: providers.a has no type",
        f"clew: {path}:1:63: providers.b.type cannot be 'c'",
    ]


@pytest.mark.req("CLI-2")
def test_check_reports_every_mistake_with_its_file_and_line(folders: Folders, clew: Clew) -> None:
    user = folders.put(
        "~/.clew/settings.json",
        """{
  "modle": "x",
  "context": {"economy": "greedy", "warningThreshold": 3},
  "providers": {"a": {"typo": 1}}
}""",
    )
    rules = folders.put(
        ".clew/settings.json",
        """{"permissions": {
  "allow": ["Bash(", "Read"],
  "deny": ["?!"]
}}""",
    )
    broken = folders.put(".clew/settings.local.json", '{"language": }')
    folders.put("clew.toml", "[context]\nmaxContextTokens = 5\n")

    told = clew("check")

    lines = [line.removeprefix("clew: ").split("; allowed")[0] for line in told.err.splitlines()]
    assert told.code == 1
    assert lines == [
        f"{user}:2:12: modle: is not a setting; did you mean model?",
        f'{user}:3:26: context.economy: cannot be "greedy"',
        f"{user}:3:56: context.warningThreshold: cannot be 3",
        f"{user}:4:31: providers.a.typo: is not a setting; did you mean type?",
        f"{folders.project / 'clew.toml'}:2: context.maxContextTokens: cannot be 5",
        f"{rules}:2:13: permissions.allow[0]: 'Bash(' is not a permission rule: write Tool or"
        " Tool(pattern)",
        f"{rules}:3:12: permissions.deny[0]: '?!' is not a permission rule: write Tool or"
        " Tool(pattern)",
        f"{broken}:1:14: this is not valid JSON: Expecting value",
    ]


def test_check_tells_of_a_broken_file_of_the_project(folders: Folders, clew: Clew) -> None:
    path = folders.put(".clew/settings.json", "{,}")

    told = clew("check")

    assert told.code == 1
    assert f"{path}:1:2: this is not valid JSON" in told.err
    with pytest.raises(ConfigError, match="not valid JSON"):
        clew("show")


def test_schema_is_json(clew: Clew) -> None:
    assert clew("schema").json["$defs"]["SettingsFile"]["type"] == "object"


def test_values_are_set_and_got(folders: Folders, clew: Clew) -> None:
    assert clew("set", "context.strategy", "compact").out == (
        "context.strategy is set in ~/.clew/settings.json\n"
    )
    assert clew("set", "context.warning_threshold", "0.5", "--project").code == 0
    assert clew("set", "language", "Latin", "--local").code == 0

    assert clew("get", "context.strategy").out == "compact\n"
    assert clew("get", "context").json == {"strategy": "compact", "warningThreshold": 0.5}
    assert (folders.project / ".clew/settings.local.json").exists()
    missing = clew("get", "model")
    assert (missing.code, missing.out, missing.err) == (1, "", "clew: model is not set\n")


def test_a_secret_is_never_got(clew: Clew) -> None:
    clew("set", "providers.a.apiKey", "hush-hush")

    assert clew("get", "providers.a.apiKey").out == "[redacted]\n"


def test_a_folder_is_accepted_until_its_settings_change(folders: Folders, clew: Clew) -> None:
    assert clew("accept").out.startswith("nothing to accept")
    path = folders.put(".clew/settings.json", {"model": "gpt-5"})
    assert clew("get", "model").code == 1

    accepted = clew("accept").out
    assert "chooses the model gpt-5" in accepted
    assert clew("get", "model").out == "gpt-5\n"
    assert clew("accept").out == "this folder is already accepted\n"

    path.write_text('{"model": "gpt-6"}')
    assert clew("get", "model").code == 1


def test_a_folder_can_be_forgotten(folders: Folders, clew: Clew) -> None:
    folders.put(".clew/settings.json", {"model": "gpt-5"})
    clew("accept")

    assert clew("forget").out == "this folder is no longer accepted\n"
    assert clew("forget").out == "this folder was not accepted\n"
    assert clew("get", "model").code == 1


def test_setting_a_value_in_a_withheld_file_prints_a_note(folders: Folders, clew: Clew) -> None:
    folders.put(".clew/settings.json", {"model": "gpt-5"})

    told = clew("set", "language", "Latin", "--project")

    assert "has no effect until you accept this folder" in told.err


def test_a_value_is_taken_out_and_all_else_stays(clew: Clew, folders: Folders) -> None:
    clew("set", "context.strategy", "tiered")
    clew("set", "language", "de")

    assert clew("unset", "context.strategy").code == 0

    written = json.loads((folders.clew_home / "settings.json").read_text())
    assert written == {"language": "de"}
    with pytest.raises(ConfigError, match=r"context\.strategy is not set in "):
        clew("unset", "context.strategy")


def test_a_value_that_cannot_be_set_names_the_key_and_no_file(clew: Clew, folders: Folders) -> None:
    with pytest.raises(ConfigError) as caught:
        clew("set", "permissions.defaultMode", "never")

    assert str(caught.value).startswith("permissions.defaultMode: ")
    assert "; allowed: " in str(caught.value)
    assert not (folders.clew_home / "settings.json").exists()

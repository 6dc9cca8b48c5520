"""Changing one value in a settings file."""

import json
import stat

import pytest

from clew.config.updates import add_allow_rules, find_target, set_value
from clew.core.errors import ConfigError
from tests.config.folders import Folders

pytestmark = pytest.mark.req("CFG-1")


def put(folders: Folders, key: str, text: str, where: str = "user") -> None:
    folders.project.mkdir(parents=True, exist_ok=True)
    loaded = folders.load_trusted()
    set_value(loaded, find_target(loaded, where), key, text, trust=folders.trust)


def test_a_value_is_written_and_everything_else_stays(folders: Folders) -> None:
    path = folders.put(
        "~/.clew/settings.json",
        {"model": "m", "context": {"warning_threshold": 0.5}, "env": {"é": "ü"}},
    )

    put(folders, "context.warningThreshold", "0.6")
    put(folders, "context.strategy", "compact")
    put(folders, 'providers."my.one".type', "openai")

    assert json.loads(path.read_text(encoding="utf-8")) == {
        "model": "m",
        "context": {"warning_threshold": 0.6, "strategy": "compact"},
        "env": {"é": "ü"},
        "providers": {"my.one": {"type": "openai"}},
    }
    assert "é" in path.read_text(encoding="utf-8")


def test_a_new_file_of_the_user_is_private_and_an_old_one_keeps_its_mode(folders: Folders) -> None:
    path = folders.clew_home / "settings.json"

    put(folders, "model", "123")
    assert json.loads(path.read_text()) == {"model": "123"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    path.chmod(0o640)
    put(folders, "language", "true")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert folders.load().settings.language == "true"


def test_a_link_of_the_user_is_written_through(folders: Folders) -> None:
    real = folders.put("~/dotfiles/settings.json", {})
    folders.clew_home.mkdir()
    link = folders.clew_home / "settings.json"
    link.symlink_to(real)

    put(folders, "model", "m")

    assert link.is_symlink()
    assert json.loads(real.read_text()) == {"model": "m"}


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        (
            "context.warningThreshold",
            "7",
            "context.warningThreshold: cannot be 7; allowed: a number",
        ),
        ("context.warningTreshold", "0.5", "is not a setting; did you mean warningThreshold"),
        ("nothing", "1", "nothing is not a setting; there are: "),
        ("model.name", "x", "model has a value and no keys"),
        ("", "x", "the setting is missing"),
        ("permissions.deny", '["Read("]', "permissions.deny.0.: 'Read.' is not a permission rule"),
        ("permissions.deny", "Read", "permissions.deny: is a string; allowed: a list"),
        ("context.strategy.maxTurns", "3", "has no type"),
    ],
)
def test_nothing_is_written_that_could_not_be_read(
    folders: Folders, key: str, text: str, message: str
) -> None:
    path = folders.put("~/.clew/settings.json", {"model": "m"})

    with pytest.raises(ConfigError, match=message):
        put(folders, key, text)

    assert json.loads(path.read_text()) == {"model": "m"}


def test_a_broken_file_is_not_overwritten(folders: Folders) -> None:
    loaded = folders.load()
    path = folders.put("~/.clew/settings.json", "{")

    with pytest.raises(ConfigError, match="not valid JSON"):
        set_value(loaded, find_target(loaded, "user"), "model", "m", trust=folders.trust)

    assert path.read_text() == "{"


def test_what_the_user_sets_in_a_project_counts_at_once(folders: Folders) -> None:
    put(folders, "permissions.allow", '["Bash(ls)"]', "local")
    put(folders, "permissions.defaultMode", "acceptEdits", "project")

    settings = folders.load_trusted().settings

    assert [str(rule) for rule in settings.permissions.allow] == ["Bash(ls)"]
    assert settings.permissions.default_mode == "acceptEdits"


def test_setting_a_value_does_not_accept_what_others_wrote(folders: Folders) -> None:
    folders.put(".claude/settings.json", {"permissions": {"allow": ["Bash(curl *)"]}})

    put(folders, "language", "Greek", "project")

    assert not folders.load_trusted().accepted


def test_a_file_that_was_changed_meanwhile_is_not_accepted(folders: Folders) -> None:
    folders.put(".clew/settings.json", {"language": "Greek"})
    loaded = folders.load_trusted()
    folders.put(".clew/settings.json", {"permissions": {"allow": ["Bash(curl *)"]}})

    set_value(loaded, find_target(loaded, "project"), "language", "Latin", trust=folders.trust)

    assert folders.load_trusted().settings.permissions.allow == ()


def test_in_the_home_folder_there_is_no_project_to_write_to(folders: Folders) -> None:
    folders.home.mkdir()
    folders.project.symlink_to(folders.home)

    with pytest.raises(ConfigError, match="use --user"):
        put(folders, "model", "m", "project")


def test_rules_that_a_person_allowed_are_kept_and_count(folders: Folders) -> None:
    folders.project.mkdir(parents=True)
    for rules in (["Bash(ls *)"], ["Bash(pwd)", "Bash(ls *)"]):
        add_allow_rules(folders.load_trusted(), rules, trust=folders.trust)

    allow = folders.load_trusted().settings.permissions.allow

    assert [(str(rule), rule.source) for rule in allow] == [
        ("Bash(ls *)", ".clew/settings.local.json"),
        ("Bash(pwd)", ".clew/settings.local.json"),
    ]
    with pytest.raises(ConfigError, match="not a permission rule"):
        add_allow_rules(folders.load_trusted(), ["Bash("], trust=folders.trust)


def test_a_value_is_written_under_the_spelling_that_is_there(folders: Folders) -> None:
    strategy = {"type": "sliding-window", "max_turns": 3}
    folders.put("~/.clew/settings.json", {"context": {"strategy": strategy}})

    put(folders, "context.strategy.maxTurns", "5")

    assert folders.load().document["context"]["strategy"]["maxTurns"] == 5


def test_a_projects_folder_that_is_a_link_out_of_it_is_not_written_to(folders: Folders) -> None:
    elsewhere = folders.home / "elsewhere"
    elsewhere.mkdir(parents=True)
    folders.project.mkdir(parents=True)
    (folders.project / ".clew").symlink_to(elsewhere)

    with pytest.raises(ConfigError, match=r"\.clew leads out of the project"):
        put(folders, "language", "fi", "local")

    assert list(elsewhere.iterdir()) == []

"""Six layers and two TOML files: their order, how they merge, and what is refused in them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from clew.core.errors import ConfigError
from clew.core.permissions import PermissionMode
from tests.config.folders import Folders

pytestmark = pytest.mark.req("CFG-1")

IN_ORDER = (
    "~/.clew/clew.toml",
    "~/.clew/settings.json",
    "~/.claude/settings.json",
    "clew.toml",
    ".clew/settings.json",
    ".clew/settings.local.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
)


def put_language(folders: Folders, name: str) -> None:
    content: Any = f'language = "{name}"' if name.endswith(".toml") else {"language": name}
    folders.put(name, content)


def test_a_folder_without_settings_has_the_defaults(folders: Folders) -> None:
    loaded = folders.load()

    assert [layer.exists for layer in loaded.layers] == [False] * 9
    assert loaded.settings.permissions.default_mode is PermissionMode.DEFAULT
    assert loaded.document == {}
    assert loaded.withheld == ()


def test_the_files_are_read_in_the_documented_order(folders: Folders) -> None:
    labels = [layer.label for layer in folders.load().layers]

    # It has servers and nothing else, below the project's other files.
    assert labels.index(".mcp.json") == labels.index("clew.toml") - 1
    assert tuple(label for label in labels if label != ".mcp.json") == IN_ORDER


@pytest.mark.parametrize("place", range(len(IN_ORDER)))
def test_a_file_wins_over_all_that_stand_before_it(folders: Folders, place: int) -> None:
    for name in IN_ORDER[: place + 1]:
        put_language(folders, name)

    loaded = folders.load()

    assert loaded.settings.language == IN_ORDER[place]
    assert loaded.origins["language",] == (IN_ORDER[place],)


def test_objects_merge_by_key_and_other_values_are_replaced(folders: Folders) -> None:
    folders.put(
        "~/.clew/settings.json", {"context": {"warningThreshold": 0.5, "blockThreshold": 1}}
    )
    folders.put("~/.claude/settings.json", {"context": {"warningThreshold": 0.6}})

    context = folders.load().settings.context

    assert (context.warning_threshold, context.block_threshold) == (0.6, 1.0)


def test_a_strategy_is_replaced_as_a_whole(folders: Folders) -> None:
    folders.put(
        "~/.clew/settings.json", {"context": {"strategy": {"type": "tiered", "maxTokens": 999}}}
    )
    folders.put("clew.toml", '[context.strategy]\ntype = "sliding_window"\nmax_turns = 4\n')

    document = folders.load().document

    assert document["context"]["strategy"] == {"type": "sliding-window", "maxTurns": 4}


def test_permission_lists_and_hooks_add_up_and_remember_their_files(folders: Folders) -> None:
    hook = {"hooks": [{"type": "command", "command": "guard"}]}
    folders.put(
        "~/.clew/settings.json",
        {"permissions": {"deny": ["Bash(rm *)"]}, "hooks": {"PreToolUse": [hook]}},
    )
    folders.put(
        ".claude/settings.json",
        {"permissions": {"deny": ["Read(.env)"], "ask": ["Edit"]}, "hooks": {"PreToolUse": [hook]}},
    )

    settings = folders.load(accepted=True).settings

    assert [(str(rule), rule.source) for rule in settings.permissions.deny] == [
        ("Bash(rm *)", "~/.clew/settings.json"),
        ("Read(.env)", ".claude/settings.json"),
    ]
    assert [str(rule) for rule in settings.permissions.ask] == ["Edit"]
    assert [hook.source.project for hook in settings.hooks.hooks] == [False, True]


def test_a_project_can_switch_off_its_own_hooks_and_never_the_users(folders: Folders) -> None:
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": "say"}]}]}
    folders.put("~/.clew/settings.json", {"hooks": hooks})
    folders.put(".clew/settings.json", {"hooks": hooks, "disableAllHooks": True})

    assert [hook.source.project for hook in folders.load(accepted=True).settings.hooks.hooks] == [
        False
    ]

    folders.put("~/.claude/settings.json", {"disableAllHooks": True})

    assert folders.load(accepted=True).settings.hooks.hooks == ()


def test_additional_directories_may_be_read(folders: Folders) -> None:
    odd = folders.root / "a[b]*"
    folders.put(
        "~/.claude/settings.json",
        {"permissions": {"additionalDirectories": ["../docs", "~/notes", str(odd)]}},
    )

    permissions = folders.load().settings.permissions
    root = folders.root.resolve()

    assert [str(rule) for rule in permissions.allow] == [
        f"Read(/{root}/docs/**)",
        f"Read(/{root}/home/notes/**)",
        f"Read(/{root}/a\\[b\\]\\*/**)",
    ]


def test_the_mode_without_questions_can_be_forbidden_by_any_file(folders: Folders) -> None:
    folders.put("~/.clew/settings.json", {"permissions": {"defaultMode": "bypassPermissions"}})
    folders.put(
        ".claude/settings.json", {"permissions": {"disableBypassPermissionsMode": "disable"}}
    )

    permissions = folders.load().settings.permissions

    assert permissions.default_mode is PermissionMode.DEFAULT
    assert permissions.bypass_disabled


def test_variables_are_texts_whatever_they_were_written_as(folders: Folders) -> None:
    folders.put("~/.claude/settings.json", {"env": {"A": 1, "B": True, "C": "x"}})

    loaded = Folders(folders.root, {"C": "old", "D": "kept"}).load()

    assert loaded.environ == {"A": "1", "B": "true", "C": "x", "D": "kept"}


def test_keys_of_claude_code_that_mean_nothing_here_are_listed(folders: Folders) -> None:
    folders.put(
        "~/.claude/settings.json",
        {
            "cleanupPeriodDays": 20,
            "statusLine": {"type": "command", "command": "x"},
            "model": "opus",
            "permissions": {"defaultMode": "dontAsk", "disableAutoMode": "disable"},
            "sandbox": {"enabled": True, "failIfUnavailable": True, "excludedCommands": ["git"]},
        },
    )

    settings = folders.load().settings

    assert {unused.key for unused in settings.unused} == {
        "cleanupPeriodDays",
        "model",
        "permissions.defaultMode",
        "permissions.disableAutoMode",
        "sandbox.excludedCommands",
    }
    assert settings.status_line is not None
    assert settings.status_line.command == "x"
    assert settings.permissions.default_mode is PermissionMode.DEFAULT
    assert settings.sandbox.mode == "on"
    assert settings.model == ""


@pytest.mark.parametrize(
    ("written", "mode"),
    [
        ({"enabled": True}, "auto"),
        ({"enabled": False}, "off"),
        ({"enabled": True, "failIfUnavailable": True}, "on"),
    ],
)
def test_the_sandbox_of_claude_code_is_understood(
    folders: Folders, written: dict[str, bool], mode: str
) -> None:
    folders.put("~/.claude/settings.json", {"sandbox": written})

    assert folders.load().settings.sandbox.mode == mode


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".clew/settings.json", "{" + '"a":1,' * 160_000 + '"a":1}'),
        (
            ".clew/settings.json",
            '{"env": {' + ",".join(f'"v{n}":1' for n in range(80_000)) + ',"v1":2}}',
        ),
        (".clew/settings.json", json.dumps({"k" * 900_000: 1})),
        ("clew.toml", "\n" * 990_000 + "modell = 1\n"),
        ("clew.toml", "a = " + "[" * 900_000),
    ],
)
def test_a_large_and_hostile_file_is_refused_in_short_time(
    folders: Folders, name: str, content: str
) -> None:
    folders.put(name, content)

    with pytest.raises(ConfigError) as raised:
        folders.load()

    assert len(str(raised.value)) < 1_000


@pytest.mark.parametrize(
    ("written", "mode"), [("manual", "default"), ("plan", "plan"), ("auto", "default")]
)
def test_modes_of_claude_code_are_understood(folders: Folders, written: str, mode: str) -> None:
    folders.put("~/.claude/settings.json", {"permissions": {"defaultMode": written}})

    assert folders.load().settings.permissions.default_mode == mode


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": 1,\n}', ":2:1: this is not valid JSON"),
        ("", "is empty"),
        ("[]", "must contain an object"),
        ('{"permissions": {"deny": []}, "permissions": {}}', "the key permissions appears twice"),
        (json.dumps({"permissions": {"deny": ["Read(x)"] * 1_001}}), "more than 1,000 rules"),
        (json.dumps({"permissions": {"deny": ["x" * 2_001]}}), "more than 2,000 characters"),
        ('{"session": {"budgetUsd": NaN}}', "NaN is not a number"),
        ("[" * 100_000, "nested too deeply"),
        ('{"model": "\\ud800"}', ":1:11: model: contains half a character"),
        (b'{"model": "\xff"}', ":1:12: this is not UTF-8"),
        (
            '{\n  "permisions": {}}',
            ":2:17: permisions: is not a setting; did you mean permissions?",
        ),
        ('{"permissions": {"alow": []}}', "permissions.alow: is not a setting; did you mean allow"),
        ('{"zzz": 1}', "zzz: is not a setting; allowed: $schema, context"),
        ('{"permissions": {"allow": ["Read",\n7]}}', ":2:1: permissions.allow[1]: is a number"),
        (
            '{"permissions": {"deny": ["Read("]}}',
            "permissions.deny[0]: 'Read(' is not a permission",
        ),
        ('{"permissions": {"allow": ["*"]}}', "permissions.allow[0]: '*' allows tools"),
        (
            '{"permissions": {"defaultMode": "yolo"}}',
            'permissions.defaultMode: cannot be "yolo"; allowed: acceptEdits, bypassPermissions,',
        ),
        ('{"context": {"warningThreshold": 2}}', "cannot be 2; allowed: a number above 0 and at"),
        ('{"context": {"compact_threshold": true}}', "context.compact_threshold: cannot be true"),
        (
            '{"context": {"criticalThreshold": 0.9, "compactThreshold": 0.9}}',
            "is the same setting as",
        ),
        (
            '{"context": {"strategy": {"type": "custom"}}}',
            "context.strategy.type: is not a known type",
        ),
        ('{"context": {"strategy": {"maxTurns": 3}}}', "context.strategy: has no type"),
        ('{"context": {"strategy": {"type": "compact", "maxTurns": 3}}}', "strategy.maxTurns"),
        ('{"context": {"compressToolResults": {}}}', "compressToolResults: has no minChars"),
        ('{"providers": {"my one": {"timeout": -1}}}', 'providers."my one".timeout: cannot be -1'),
        ('{"providers": {"a": {"apiKey": 12345678}}}', "providers.a.apiKey: is a number"),
        ('{"env": {"A": []}}', "env.A: is a list; allowed: a string or true or false"),
        ('{"hooks": {"Stop": [{"hooks": [{}]}]}}', "Stop[0].hooks[0].type is missing"),
        ('{"language": ""}', 'language: cannot be ""; allowed: a string of 1 to 100'),
    ],
)
def test_a_mistake_is_an_error_that_says_where_and_what(
    folders: Folders, content: str | bytes, message: str
) -> None:
    path = folders.put(".clew/settings.json", content)

    with pytest.raises(ConfigError) as raised:
        folders.load()

    assert str(raised.value).startswith(str(path))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("model = \n", ":1:9: this is not valid TOML"),
        ("[context\n", "this is not valid TOML"),
        ("language = 2020-01-01\n", ":1: language: is a date or a time"),
        ("[session]\nbudget_usd = inf\n", ":2: session.budget_usd: is not a finite number"),
        ("[context]\nwarning_treshold = 0.5\n", ":2: context.warning_treshold: is not a setting"),
    ],
)
def test_a_mistake_in_toml_is_an_error_that_says_where(
    folders: Folders, content: str, message: str
) -> None:
    folders.put("clew.toml", content)

    with pytest.raises(ConfigError) as raised:
        folders.load()

    assert message in str(raised.value)


def test_a_file_of_a_megabyte_is_refused(folders: Folders) -> None:
    folders.put(".claude/settings.json", " " * 1_000_001)

    with pytest.raises(ConfigError, match="larger than 1,000,000 bytes"):
        folders.load()


@pytest.mark.parametrize("linked", [".clew", ".clew/settings.json"])
def test_a_link_out_of_the_project_is_refused(folders: Folders, linked: str) -> None:
    folders.put("~/elsewhere/settings.json", {})
    target = folders.home / "elsewhere"
    link = folders.project / linked
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target if linked == ".clew" else target / "settings.json")

    with pytest.raises(ConfigError, match="leads out of the project"):
        folders.load()


def test_a_link_inside_the_project_and_one_of_the_user_are_followed(folders: Folders) -> None:
    folders.put("shared.json", {"language": "Welsh"})
    folders.put("~/dotfiles/settings.json", {"model": "gpt-5"})
    for link, to in (
        (folders.project / ".clew/settings.json", folders.project / "shared.json"),
        (folders.clew_home / "settings.json", folders.home / "dotfiles/settings.json"),
    ):
        link.parent.mkdir(parents=True)
        link.symlink_to(to)

    settings = folders.load().settings

    assert (settings.language, settings.model) == ("Welsh", "gpt-5")


def test_what_is_no_file_is_refused_at_once(folders: Folders) -> None:
    path = folders.project / ".clew" / "settings.json"
    path.parent.mkdir(parents=True)
    os.mkfifo(path)

    with pytest.raises(ConfigError, match="is not a regular file"):
        folders.load()


def test_a_dangling_link_and_a_circle_of_links_are_refused(folders: Folders) -> None:
    path = folders.project / "clew.toml"
    path.parent.mkdir(parents=True)
    path.symlink_to("nowhere.toml")
    with pytest.raises(ConfigError, match="is a broken link"):
        folders.load()

    path.unlink()
    path.symlink_to(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        folders.load()


def test_in_the_home_folder_the_users_files_are_the_users(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    folders.put("~/.clew/settings.json", {"permissions": {"allow": ["Bash(ls)"]}})
    folders.put("~/.claude/settings.json", {"permissions": {"allow": ["Bash(pwd)"]}})
    (tmp_path / "project").symlink_to(folders.home)

    loaded = folders.load()

    assert [str(rule) for rule in loaded.settings.permissions.allow] == ["Bash(ls)", "Bash(pwd)"]
    assert loaded.withheld == ()

"""The schema, the documentation's table, and settings as they are shown."""

import re
from pathlib import Path
from typing import Any

import pytest

from clew.config.display import list_values, redact_settings
from clew.config.schema_info import format_markdown, json_schema, list_settings
from tests.config.folders import Folders

pytestmark = pytest.mark.req("CFG-1")

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_the_page_lists_every_setting() -> None:
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(r"<!-- settings: begin -->\n\n(.*)\n<!-- settings: end -->", text, re.DOTALL)

    assert found is not None
    assert found[1] == format_markdown()


def test_every_setting_is_described() -> None:
    assert [
        row.key for row in list_settings() if not row.meaning or "something else" in row.allowed
    ] == []


def properties(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: each["properties"] for name, each in schema["$defs"].items()}


def test_the_schema_knows_every_spelling_and_says_what_keys_mean() -> None:
    schema = json_schema()

    context = properties(schema)["ContextSection"]
    assert schema["$ref"] == "#/$defs/SettingsFile"
    assert schema["$defs"]["ContextSection"]["additionalProperties"] is False
    assert context["warningThreshold"] == {
        "description": "Share of the context window at which to warn; 0.7.",
        "exclusiveMinimum": 0,
        "maximum": 1,
        "type": "number",
    }
    assert context["critical_threshold"] == context["compactThreshold"]
    assert {"base_url", "baseURL", "baseUrl"} <= properties(schema)["ProfileSection"].keys()
    assert "schema" not in properties(schema)["SettingsFile"]


def test_settings_are_shown_with_their_files_and_without_secrets(tmp_path: Path) -> None:
    folders = Folders(tmp_path, {"SET": "s3cret-s3cret"})
    folders.put(
        "~/.clew/settings.json",
        {
            "providers": {
                "a": {
                    "apiKey": "hush-hush",
                    "baseURL": "https://me:hush-hush@host/v1",
                    "options": {"headers": {"Authorization": "Bearer hush-hush"}, "n": [1, "x"]},
                },
                "b": {"apiKey": "$ENV:SET", "baseURL": "$ENV:UNSET", "timeout": 5},
            },
            "env": {"GITHUB_TOKEN": "hush-hush", "PLAIN": "word"},
            "permissions": {"deny": ["Read(.env)"]},
        },
    )
    folders.put(".clew/settings.json", {"permissions": {"deny": ["Bash(rm *)"]}})

    loaded = folders.load()
    document = redact_settings(loaded)

    assert "hush-hush" not in str(document)
    assert "s3cret" not in str(document)
    assert document["env"] == {"GITHUB_TOKEN": "[redacted]", "PLAIN": "word"}
    assert document["providers"]["a"]["apiKey"] == "[redacted]"
    assert document["providers"]["a"]["baseURL"] == "https://host/v1"
    assert document["providers"]["a"]["options"]["n"] == [1, "x"]
    assert document["providers"]["b"] == {
        "apiKey": "$ENV:SET (set)",
        "baseURL": "$ENV:UNSET (not set)",
        "timeout": 5,
    }
    assert (
        "permissions.deny",
        ["Read(.env)", "Bash(rm *)"],
        ("~/.clew/settings.json", ".clew/settings.json"),
    ) in list(list_values(loaded))

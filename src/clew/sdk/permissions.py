"""Connects the permission gate of a session with its clients and with the settings."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from anyio import to_thread
from msgspec.structs import replace

from clew.config.settings import LoadedSettings, additional_directory, read_rule
from clew.config.updates import add_allow_rules, find_target
from clew.core.errors import ConfigError
from clew.core.events import PermissionDenied, Warned
from clew.core.permissions import Access, Decision
from clew.extensions.skills import Skill
from clew.permissions.rules import EDITING, READING, Rule, names_tool, parse_allow_rule, parse_rule
from clew.sdk.folders import Homes
from clew.sdk.session_parts import Blueprint
from clew.sdk.settings import load_project_settings, trust_record
from clew.session.gate import Gate, Remember
from clew.tools.protocol import Tool


def connect_gate(gate: Gate, blueprint: Blueprint) -> None:
    """Let a gate ask the clients, publish denials, and save rules, where it does not already."""

    def publish_denial(access: Access, decision: Decision, remedy: str) -> None:
        blueprint.bus.publish(
            PermissionDenied(
                call_id=access.call_id,
                tool_name=access.tool,
                target=access.target,
                reason=decision.reason,
                remedy=remedy,
            )
        )

    def warn(text: str) -> None:
        blueprint.bus.publish(Warned(text))

    gate.ask = gate.ask or blueprint.requests.ask
    gate.on_denied = gate.on_denied or publish_denial
    gate.remember = gate.remember or rule_keeper(
        blueprint.cwd, blueprint.homes, blueprint.environ, warn
    )


def rule_keeper(
    cwd: Path, homes: Homes, environ: Mapping[str, str], warn: Callable[[str], None]
) -> Remember:
    """Return a function that adds rules to the project's local settings.

    When they cannot be added, it warns, and the call still runs.
    """

    async def remember(rules: Sequence[str]) -> None:
        try:
            await to_thread.run_sync(_add_rules, cwd, homes, environ, rules)
        except ConfigError as error:
            warn(f"the call is allowed for this session only; the rule was not saved: {error}")

    return remember


def can_save_rules(loaded: LoadedSettings) -> bool:
    """Return True when the project has settings that a permission rule can be added to."""
    try:
        return bool(find_target(loaded, "local")) and not loaded.withheld
    except ConfigError:
        return False


def _add_rules(cwd: Path, homes: Homes, environ: Mapping[str, str], rules: Sequence[str]) -> None:
    loaded = load_project_settings(cwd, homes, environ)
    if loaded.withheld:
        raise ConfigError("accept the settings of this folder first: clew config accept")
    add_allow_rules(loaded, rules, trust=trust_record(homes))


def list_allowed(blueprint: Blueprint) -> tuple[Rule, ...]:
    """Return the allow rules among the options: tools, and folders that may be read.

    Raises:
        ConfigError: A rule is malformed.
    """
    options, homes = blueprint.options, blueprint.homes
    rules = [
        parse_allow_rule(text, source="--allowed-tools")
        for text in options.get("allowed_tools", ())
    ]
    for text in options.get("add_dirs", ()):
        folder = additional_directory(text, cwd=blueprint.cwd, user_home=homes.user)
        if not folder.is_dir():
            raise ConfigError(f"--add-dir {text}: there is no such folder")
        rules.append(read_rule(folder, "--add-dir"))
    return tuple(rules)


def list_denied(blueprint: Blueprint) -> tuple[Rule, ...]:
    """Return the deny rules among the options.

    Raises:
        ConfigError: A rule is malformed.
    """
    texts = blueprint.options.get("disallowed_tools", ())
    return tuple(parse_rule(text, source="--disallowed-tools") for text in texts)


def list_skill_rules(skill: Skill) -> tuple[Rule, ...]:
    """Return what `allowed-tools` of a skill lets run without a question while the user runs it.

    A skill of a project grants nothing: it came with the folder. A tool that reads or writes files
    is allowed in the project only, unless a path is named. Entries that are not rules are left out.
    """
    if skill.source == "project":
        return ()
    rules = []
    for text in skill.allowed_tools:
        with suppress(ConfigError):
            rule = parse_allow_rule(text, source=f"allowed-tools of /{skill.name}")
            in_project = rule.tool in EDITING | READING and rule.covers_all
            rules.append(replace(rule, pattern="./**") if in_project else rule)
    return tuple(rules)


def list_guards(rules: Sequence[Rule], blueprint: Blueprint) -> tuple[Rule, ...]:
    """Return deny or ask rules; in a worktree, with those for copies of the project's files."""
    folder = blueprint.homes.find_settings_folder(blueprint.cwd)
    if folder == blueprint.cwd:
        return tuple(rules)
    from clew.permissions.moved_rules import add_moved_rules  # noqa: PLC0415 - seldom needed

    return add_moved_rules(rules, folder, blueprint.cwd)


def drop_denied(tools: Sequence[Tool], blueprint: Blueprint) -> list[Tool]:
    """Return the tools without those that an option denies altogether."""
    denied = [rule for rule in list_denied(blueprint) if rule.covers_all]
    return [tool for tool in tools if not any(names_tool(rule, tool.spec.name) for rule in denied)]

"""The order in which rules, grants and modes are asked.

Deny comes first and always holds. Then what cannot be judged is asked about; then come
grants and allow rules; and the mode decides the rest. Nothing here runs or asks
anything; the file system is looked at only to see where links lead.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from clew.core.access import Access, Decision, PermissionMode, Risk, Verdict
from clew.permissions.grants import Grant, covers
from clew.permissions.programs import RUNNERS
from clew.permissions.rules import (
    Rule,
    allows_path,
    denies_path,
    guards_below,
    matches_text,
    resolved,
)
from clew.permissions.shell import Command, Line, loose_text, split

_GUARDED_FOLDERS = frozenset({".git", ".clew", ".claude"})
"""What is written here can run later, or change these very rules."""


def decide(
    access: Access,
    *,
    mode: PermissionMode,
    allow: Sequence[Rule],
    deny: Sequence[Rule],
    grants: Collection[Grant],
    cwd: Path,
) -> Decision:
    """Judge one call.

    Args:
        access: What the call wants to touch.
        mode: How much runs without asking.
        allow: What runs without asking; in plan mode only what inspects.
        deny: What never runs, in any mode.
        grants: What a person allowed for this session.
        cwd: The working folder: relative paths start here.

    Returns:
        The verdict, with a sentence that names the rule or the mode behind it.
    """
    line = split(access.target) if _is_command(access) else Line()
    denying = [rule for rule in deny if rule.tool == access.tool]
    if rule := next((each for each in denying if _denies(each, access, line, cwd)), None):
        return Decision(Verdict.DENY, f"The rule {rule} forbids this.")
    if mode is PermissionMode.PLAN and access.risk is not Risk.INSPECT:
        return Decision(Verdict.DENY, "Plan mode only inspects; nothing is changed or run.")
    if any(covers(grant, access, cwd) for grant in grants):
        return Decision(Verdict.ALLOW, "Calls of this shape were allowed for this session.")
    allowing = [rule for rule in allow if rule.tool == access.tool]
    if doubt := _doubt(access, line, denying, cwd):
        return _about_doubt(doubt, mode, allowing, denying)
    if rule := _allowing(allowing, access, line, cwd):
        return Decision(Verdict.ALLOW, f"The rule {rule} allows this.")
    return _by_mode(access, mode, cwd)


def _is_command(access: Access) -> bool:
    # Whatever may do anything is read as a command line: for other texts this only asks more.
    return access.risk is Risk.EXECUTE and not access.is_path and access.target != ""


def _denies(rule: Rule, access: Access, line: Line, cwd: Path) -> bool:
    if rule.covers_all:
        return True
    if access.is_path:
        return denies_path(rule, access, cwd)
    if not _is_command(access):
        return matches_text(rule, access.target)
    if line.doubt and _words_appear(rule, f"{access.target} {loose_text(access.target)}"):
        return True
    texts = {access.target.strip()}
    for command in line.commands:
        texts |= {command.text, command.plain, command.called}
        if command.program in RUNNERS and _words_appear(rule, command.plain):
            return True
    # With a blank at its end a bare `rm` also matches `rm *`.
    return any(matches_text(rule, text) or matches_text(rule, f"{text} ") for text in texts)


def _words_appear(rule: Rule, text: str) -> bool:
    words = rule.literal_words
    return bool(words) and all(
        re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) for word in words
    )


def _doubt(access: Access, line: Line, denying: Sequence[Rule], cwd: Path) -> str:
    partial = [rule for rule in denying if not rule.covers_all]
    if line.doubt:
        return f"What this command runs is not certain: {line.doubt}."
    if partial and not access.target:
        return f"The rule {partial[0]} cannot be compared with this call."
    if access.is_path and resolved(access.target, cwd) is None:
        return "Where this path leads cannot be told."
    for rule in partial:
        if access.is_path and guards_below(rule, access, cwd):
            return f"This folder may hold what the rule {rule} forbids."
        if any(_may_be(rule, command) for command in line.commands):
            return f"This may be what the rule {rule} forbids."
    return ""


def _may_be(rule: Rule, command: Command) -> bool:
    """Could the command be a denied one, written with other options or a variable?"""
    first, *others = (rule.pattern or "").removesuffix(":*").split() or [""]
    if command.expands and command.program in RUNNERS:
        return True
    if not matches_text(Rule(rule.tool, first), command.program):
        return False
    wanted = [word for word in others if not word.startswith("-") and word.strip("*")]
    return command.expands or all(
        any(matches_text(Rule(rule.tool, word), given) for given in command.words)
        for word in wanted
    )


def _about_doubt(
    doubt: str, mode: PermissionMode, allowing: Sequence[Rule], denying: Sequence[Rule]
) -> Decision:
    if not denying:
        if rule := next((rule for rule in allowing if rule.covers_all), None):
            return Decision(Verdict.ALLOW, f"The rule {rule} allows every call.")
        if mode is PermissionMode.BYPASS:
            return Decision(Verdict.ALLOW, "The mode bypassPermissions allows everything.")
    return Decision(Verdict.ASK, doubt)


def _allowing(rules: Sequence[Rule], access: Access, line: Line, cwd: Path) -> Rule | None:
    if access.is_path:
        return next((rule for rule in rules if allows_path(rule, access, cwd)), None)
    if not _is_command(access):
        return _matching(rules, access.target)
    found = [_matching(rules, command.text) for command in line.commands]
    return found[0] if found and None not in found else None


def _matching(rules: Iterable[Rule], text: str) -> Rule | None:
    return next((rule for rule in rules if matches_text(rule, text)), None)


def _by_mode(access: Access, mode: PermissionMode, cwd: Path) -> Decision:
    if mode is PermissionMode.BYPASS:
        return Decision(Verdict.ALLOW, "The mode bypassPermissions allows everything.")
    edits = mode is PermissionMode.ACCEPT_EDITS and access.risk is Risk.MODIFY
    if access.risk is not Risk.INSPECT and not edits:
        return Decision(Verdict.ASK, f"The mode {mode} asks before a call that may {access.risk}.")
    if access.is_path and (problem := _beyond(access, cwd)):
        return Decision(Verdict.ASK, f"The mode {mode} asks about {problem}.")
    return Decision(Verdict.ALLOW, f"The mode {mode} lets a call {access.risk}.")


def _beyond(access: Access, cwd: Path) -> str:
    target, root = resolved(access.target, cwd), cwd.resolve()
    if target is None or not target.is_relative_to(root):
        return "paths outside the working folder"
    if access.risk is Risk.MODIFY and _GUARDED_FOLDERS & set(target.relative_to(root).parts):
        return "changes to settings and hooks"
    return ""

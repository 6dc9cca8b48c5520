"""Judging command lines: any command may be denied, and every one must be allowed."""

from collections.abc import Sequence
from pathlib import Path

from clew.core.access import Access
from clew.permissions import on_touches
from clew.permissions.likeness import may_be, words_appear
from clew.permissions.modes import wording
from clew.permissions.on_touches import Ground, ground_of
from clew.permissions.paths import folds_case
from clew.permissions.policy import Policy
from clew.permissions.rules import EDITING, READING, Rule, names, permits
from clew.permissions.shell.line import Command, Line, flat
from clew.permissions.shell.programs import PACKAGE_MANAGERS, RUNNERS, RUNS_WITH
from clew.permissions.shell.reading import loose_text, read
from clew.permissions.texts import allows_command, denies_text, spells


def concerns(rule: Rule, access: Access) -> bool:
    """Does a rule that denies or asks speak of command lines, or of files they may touch?"""
    return names(rule, access.tool) or rule.tool in EDITING | READING


def forbids(rule: Rule, access: Access, cwd: Path) -> bool:
    """Does a rule that denies or asks match a command, or a file that one touches?"""
    named = names(rule, access.tool)
    if named and rule.covers_all:
        return True
    for target in access.targets:
        line = read(target)
        if named and _forbids_line(rule, target, line, cwd):
            return True
        about_files = rule.tool in EDITING | READING and line.touches
        if about_files and on_touches.forbids(rule, line, ground_of(line, cwd)):
            return True
    return False


def _forbids_line(rule: Rule, target: str, line: Line, cwd: Path) -> bool:
    hidden = line.doubts or any(command.hides for command in flat(line.commands))
    if hidden and words_appear(rule, f"{target} {loose_text(target)}"):
        return True
    fold = folds_case(str(cwd))
    texts = {target.strip()}
    for command in flat(line.commands):
        texts |= {command.plain, command.called, command.written}
        if _runs_words(command) and words_appear(rule, f"{command.plain} {command.written}"):
            return True
    return any(denies_text(rule, text, fold=fold) for text in texts)


def _runs_words(command: Command) -> bool:
    """May any word of this command be a command of its own?"""
    if command.hides or command.caution:
        return True
    if command.program in PACKAGE_MANAGERS:
        return any(word.text in RUNS_WITH for word in command.words)
    return command.program in RUNNERS and not command.inner


def doubt(access: Access, guarding: Sequence[Rule], policy: Policy) -> str:
    """Say why it is not certain that no rule forbids the call, or nothing."""
    for target in access.targets:
        line = read(target)
        if line.doubts:
            return f"What this command runs is not certain: {line.doubts[0]}."
        if guarding and not target:
            return f"The rule {guarding[0]} cannot be compared with this call."
        if reason := _guarded(access, line, guarding, policy):
            return reason
    return ""


def _guarded(access: Access, line: Line, guarding: Sequence[Rule], policy: Policy) -> str:
    own = [rule for rule in guarding if names(rule, access.tool)]
    for command in flat(line.commands):
        for rule in own:
            expands = command.expands and command.program in RUNNERS and not command.inner
            if expands or may_be(rule, command):
                return f"This may be what the rule {rule} forbids."
        if guarding and command.hides and not _is_spelled(access, command, policy):
            return f"What this command runs is not certain: {command.hides}."
    return on_touches.doubt(line, guarding, ground_of(line, policy.cwd))


def _is_spelled(access: Access, command: Command, policy: Policy) -> bool:
    return any(
        permits(rule, access.tool) and not rule.covers_all and _allows(rule, command)
        for rule in policy.allow
    )


def allowing(access: Access, policy: Policy) -> tuple[Rule, ...] | str:
    """Return the rules that together allow every command, or the reason why they do not."""
    rules = [rule for rule in policy.allow if permits(rule, access.tool)]
    found: list[Rule] = []
    for target in access.targets:
        line = read(target)
        ground = ground_of(line, policy.cwd)
        allowed = _allowed(line, rules, ground)
        if allowed is None:
            return wording(policy.mode, access.risk)
        if reason := on_touches.refusal(line, policy, ground):
            return reason
        found += allowed
    return tuple(dict.fromkeys(found))


def _allowed(line: Line, rules: Sequence[Rule], ground: Ground) -> list[Rule] | None:
    """Return the rules for the commands of a line, or None if one command has none."""
    found: list[Rule] = []
    for command in line.commands:
        if command.program == "cd" and command.name == "cd" and ground.inside:
            continue
        each = _permit(command, rules)
        if each is None:
            return None
        found += each
    moved = len(ground.folders) > 1 or not ground.certain
    # Another folder may hold a repository whose settings make git run something.
    if moved and any(command.program == "git" for command in flat(line.commands)):
        return None
    return found or None


def _permit(command: Command, rules: Sequence[Rule]) -> list[Rule] | None:
    own = [rule for rule in rules if _allows(rule, command)]
    if command.inert:
        return own[:1]
    if not command.inner:
        return own[:1] or None
    inner = [_permit(each, rules) for each in command.inner]
    merged = [rule for each in inner if each is not None for rule in each]
    if None not in inner:
        if command.transparent:
            return merged
        return own[:1] + merged if own else None
    programs = {each.name for each in flat(command.inner)}
    spelling = [rule for rule in own if all(spells(rule, program) for program in programs)]
    return spelling[:1] or None


def _allows(rule: Rule, command: Command) -> bool:
    return allows_command(rule, command) and all(spells(rule, word) for word in command.caution)

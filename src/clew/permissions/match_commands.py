"""Judging command lines: any command may be denied, and every one must be allowed."""

import re
from collections.abc import Sequence
from pathlib import Path

from clew.core.access import Access
from clew.permissions import command_files
from clew.permissions.command_files import WorkingDirs, follow_cd
from clew.permissions.match_text import allows_command, denies_text, spells
from clew.permissions.paths import folds_case
from clew.permissions.policy import Policy, describe_mode
from clew.permissions.rules import EDITING, READING, Rule, may_allow, names_tool
from clew.permissions.shell.command_line import CommandLine, ShellCommand, ShellWord, flatten
from clew.permissions.shell.parser import parse_line, strip_quotes
from clew.permissions.shell.programs import PACKAGE_MANAGERS, RUNNERS, RUNS_WITH


def concerns(rule: Rule, access: Access) -> bool:
    """Does a rule that denies or asks speak of command lines, or of files they may touch?"""
    return names_tool(rule, access.tool) or rule.tool in EDITING | READING


def forbids(rule: Rule, access: Access, cwd: Path) -> bool:
    """Does a rule that denies or asks match a command, or a file that one touches?"""
    named = names_tool(rule, access.tool)
    if named and rule.covers_all:
        return True
    for target in access.targets:
        line = parse_line(target)
        if named and _forbids_line(rule, target, line, cwd):
            return True
        about_files = rule.tool in EDITING | READING and line.touches
        if about_files and command_files.forbids(rule, line, follow_cd(line, cwd)):
            return True
    return False


def _forbids_line(rule: Rule, target: str, line: CommandLine, cwd: Path) -> bool:
    hidden = line.doubts or any(command.hides for command in flatten(line.commands))
    if hidden and words_appear(rule, f"{target} {strip_quotes(target)}"):
        return True
    fold = folds_case(str(cwd))
    texts = {target.strip()}
    for command in flatten(line.commands):
        texts |= {command.plain, command.called, command.written}
        if _runs_words(command) and words_appear(rule, f"{command.plain} {command.written}"):
            return True
    return any(denies_text(rule, text, fold=fold) for text in texts)


def _runs_words(command: ShellCommand) -> bool:
    """May any word of this command be a command of its own?"""
    if command.hides or command.caution:
        return True
    if command.program in PACKAGE_MANAGERS:
        return any(word.text in RUNS_WITH for word in command.words)
    return command.program in RUNNERS and not command.inner


def doubt(access: Access, guarding: Sequence[Rule], policy: Policy) -> str:
    """Say why it is not certain that no rule forbids the call, or nothing."""
    for target in access.targets:
        line = parse_line(target)
        if line.doubts:
            return f"What this command runs is not certain: {line.doubts[0]}."
        if guarding and not target:
            return f"The rule {guarding[0]} cannot be compared with this call."
        if reason := _guarded(access, line, guarding, policy):
            return reason
    return ""


def _guarded(access: Access, line: CommandLine, guarding: Sequence[Rule], policy: Policy) -> str:
    own = [rule for rule in guarding if names_tool(rule, access.tool)]
    for command in flatten(line.commands):
        for rule in own:
            expands = command.expands and command.program in RUNNERS and not command.inner
            if expands or may_be(rule, command):
                return f"This may be what the rule {rule} forbids."
        if guarding and command.hides and not _is_spelled(access, command, policy):
            return f"What this command runs is not certain: {command.hides}."
    return command_files.doubt(line, guarding, follow_cd(line, policy.cwd))


def _is_spelled(access: Access, command: ShellCommand, policy: Policy) -> bool:
    return any(
        may_allow(rule, access.tool) and not rule.covers_all and _allows(rule, command)
        for rule in policy.allow
    )


def allowing(access: Access, policy: Policy) -> tuple[Rule, ...] | str:
    """Return the rules that together allow every command, or the reason why they do not."""
    rules = [rule for rule in policy.allow if may_allow(rule, access.tool)]
    found: list[Rule] = []
    for target in access.targets:
        line = parse_line(target)
        ground = follow_cd(line, policy.cwd)
        allowed = _allowed(line, rules, ground)
        if allowed is None:
            return describe_mode(policy.mode, access.risk)
        if reason := command_files.refusal(line, policy, ground):
            return reason
        found += allowed
    return tuple(dict.fromkeys(found))


def _allowed(line: CommandLine, rules: Sequence[Rule], ground: WorkingDirs) -> list[Rule] | None:
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
    if moved and any(command.program == "git" for command in flatten(line.commands)):
        return None
    return found or None


def _permit(command: ShellCommand, rules: Sequence[Rule]) -> list[Rule] | None:
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
    programs = {each.name for each in flatten(command.inner)}
    spelling = [rule for rule in own if all(spells(rule, program) for program in programs)]
    return spelling[:1] or None


def _allows(rule: Rule, command: ShellCommand) -> bool:
    return allows_command(rule, command) and all(spells(rule, word) for word in command.caution)


def words_appear(rule: Rule, text: str) -> bool:
    """Do all the words of the rule stand somewhere in `text`?"""
    words = rule.literal_words
    return bool(words) and all(
        re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) for word in words
    )


def may_be(rule: Rule, command: ShellCommand) -> bool:
    """Could the command be one of the rule's, with other options or another order of words?

    `git -C . push` may be `git push`, `rm -fr` may be `rm -rf`, and `git $X` may be anything.
    """
    first, *others = (rule.pattern or "").removesuffix(":*").split() or [""]
    if not denies_text(Rule(rule.tool, first), command.program):
        return False
    given = command.words[1:]
    wanted = [word for word in others if not word.startswith("-") and word.strip("*")]
    options = [word.rstrip("*") for word in others if word.startswith("-")]
    if "*" in others[:-1]:
        found = all(any(_is(word, each) for each in given) for word in wanted)
    else:
        found = _follows(wanted, given)
    return found and (
        not options or any(_like(option, each) for option in options for each in given)
    )


def _is(pattern: str, word: ShellWord) -> bool:
    return not word.known or denies_text(Rule("", pattern), word.text)


def _follows(wanted: list[str], given: tuple[ShellWord, ...]) -> bool:
    """Do the words come in this order, with nothing between them but options and their values?"""
    at, after_option = 0, False
    for word in given:
        if at == len(wanted):
            return True
        if _is(wanted[at], word):
            at += 1
        elif not word.text.startswith("-") and not after_option:
            return False
        after_option = word.text.startswith("-")
    return at == len(wanted)


def _like(option: str, word: ShellWord) -> bool:
    """May a word be this option, in its long form, its short form, or among others?"""
    text = word.text
    if not word.known or text.startswith("+"):
        return True
    if not text.startswith("-") or text == "--":
        return False
    if option.startswith("--") and text.startswith("--"):
        name = text.partition("=")[0]
        return name.startswith(option) or option.startswith(name)
    return bool(_letters(option) & _letters(text))


def _letters(option: str) -> set[str]:
    return {option[2:3]} if option.startswith("--") else set(option[1:])

"""Matches rules against command lines: a deny rule needs one command, allow rules need all."""

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from clew.core.permissions import Access, TargetKind
from clew.permissions import command_files
from clew.permissions.command_files import WorkingDirs, follow_cd
from clew.permissions.found_files import runs_readers
from clew.permissions.match_text import allows_command, denies_text, spells
from clew.permissions.paths import folds_case
from clew.permissions.policy import Policy, describe_mode
from clew.permissions.read_only import may_expand, only_reads
from clew.permissions.rules import (
    EDITING,
    READING,
    SHELL_TOOLS,
    Rule,
    names_tool,
    select_allow_rules,
)
from clew.permissions.shell.command_line import CommandLine, ShellCommand, ShellWord, flatten
from clew.permissions.shell.file_arguments import knows_files_of
from clew.permissions.shell.parser import parse_line, strip_quotes
from clew.permissions.shell.possible_files import find_unknown_values
from clew.permissions.shell.programs import PACKAGE_MANAGERS, RUN_SUBCOMMANDS, RUNNERS


def applies_to(rule: Rule, access: Access) -> bool:
    """Can a deny or ask rule match command lines, or files that they may use?"""
    return names_tool(rule, access.tool) or rule.tool in EDITING | READING


def matches_guard(rule: Rule, access: Access, cwd: Path) -> bool:
    """Does a deny or ask rule match a command, or a file that a command uses?"""
    named = names_tool(rule, access.tool)
    if named and rule.covers_all:
        return True
    for target in access.targets:
        line = parse_line(target)
        if named and _matches_line(rule, target, line, cwd):
            return True
        about_files = rule.tool in EDITING | READING and line.files
        if about_files and command_files.matches_guard(
            rule, line, follow_cd(line, cwd, access.start)
        ):
            return True
    return False


def _matches_line(rule: Rule, target: str, line: CommandLine, cwd: Path) -> bool:
    hidden = line.doubts or any(command.opaque_reason for command in flatten(line.commands))
    if hidden and mentions_words(rule, f"{target} {strip_quotes(target)}"):
        return True
    fold = folds_case(str(cwd))
    texts = {target.strip()}
    for command in flatten(line.commands):
        texts |= {command.plain, command.called, command.written}
        if _may_run_arguments(command) and mentions_words(
            rule, f"{command.plain} {command.written}"
        ):
            return True
    return any(denies_text(rule, text, fold=fold) for text in texts)


def _may_run_arguments(command: ShellCommand) -> bool:
    """May any argument of this command be a command that it runs?"""
    if command.opaque_reason or command.sensitive_words:
        return True
    if command.program in PACKAGE_MANAGERS:
        return any(word.text in RUN_SUBCOMMANDS for word in command.words)
    return command.program in RUNNERS and not command.inner


def find_doubt(access: Access, guarding: Sequence[Rule], policy: Policy) -> str:
    """Return why a rule may forbid the call, or an empty string."""
    for target in access.targets:
        line = parse_line(target)
        if line.doubts:
            return f"it is uncertain what this command runs: {line.doubts[0]}"
        if guarding and not target:
            return f"the rule {guarding[0]} cannot be compared with this call"
        if reason := _find_guard_doubt(access, line, guarding, policy):
            return reason
    return ""


def _find_guard_doubt(
    access: Access, line: CommandLine, guarding: Sequence[Rule], policy: Policy
) -> str:
    if guarding and line.made_program:
        return f"it is uncertain what `{line.made_program}` does, which this line makes and runs"
    own = [rule for rule in guarding if names_tool(rule, access.tool)]
    for command in flatten(line.commands):
        for rule in own:
            expands = command.expands and command.program in RUNNERS and not command.inner
            if expands or may_match(rule, command) or _may_run(rule, command):
                return f"the rule {rule} may forbid this"
            if mentions_words(rule, command_files.find_input(line)):
                return f"the rule {rule} may forbid what a program gets as its input"
        if guarding and command.opaque_reason and not _is_spelled_out(access, command, policy):
            return f"it is uncertain what this command runs: {command.opaque_reason}"
    return command_files.find_doubt(line, guarding, follow_cd(line, policy.cwd, access.start))


def _may_run(rule: Rule, command: ShellCommand) -> bool:
    """May a program or an option that no table knows run what the rule forbids?"""
    if command.inner:
        return False
    if knows_files_of(command.words):
        values = find_unknown_values(command.words)
        return any(mentions_words(rule, value) for value in values)
    given = [word.text for word in command.words[1:]]
    texts = {*given, *(" ".join(given[at:]) for at in range(len(given)))}
    texts |= {text.rpartition("=")[2] for text in texts}
    called = {
        " ".join((program.rpartition("/")[2], rest)).strip()
        for program, _, rest in (text.strip().partition(" ") for text in texts)
        if program
    }
    return mentions_words(rule, command.plain) or any(denies_text(rule, each) for each in called)


def _is_spelled_out(access: Access, command: ShellCommand, policy: Policy) -> bool:
    rules = select_allow_rules(policy.allow, access.tool)
    return any(not rule.covers_all and _allows(rule, command) for rule in rules)


def find_allow_rules(access: Access, policy: Policy) -> tuple[Rule, ...] | str:
    """Return the rules that together allow every command, or the reason to ask.

    Commands that only read need no rule. The result is empty when every command does.
    """
    rules = select_allow_rules(policy.allow, access.tool)
    found: list[Rule] = []
    for target in access.targets:
        line = parse_line(target)
        judge = _LineJudge(rules, policy, follow_cd(line, policy.cwd, access.start))
        allowed = judge.allow_line(line, reading=_runs_in_shell(access))
        if allowed is None:
            return describe_mode(policy.mode, access.risk)
        if reason := command_files.find_refusal(line, policy, judge.dirs):
            return reason
        found += allowed
    return tuple(dict.fromkeys(found))


def _runs_in_shell(access: Access) -> bool:
    """Does the shell of this machine run the line? Other tools only resemble command lines."""
    return access.tool in SHELL_TOOLS and access.kind is TargetKind.COMMAND


class _LineJudge(Struct, frozen=True):
    """Finds the rules that allow the commands of a line."""

    rules: Sequence[Rule]
    policy: Policy
    dirs: WorkingDirs

    def allow_line(self, line: CommandLine, *, reading: bool) -> list[Rule] | None:
        """Return the rules that allow a line, none if it only reads, or None to ask."""
        found: list[Rule] = []
        for command in line.commands:
            if command.program == "cd" and command.name == "cd" and self.dirs.inside:
                continue
            each = self.allow_command(command, reading=reading)
            if each is None:
                return None
            found += each
        # The settings of a repository in another folder may make git run a program.
        if self.dirs.moved and any(map(self._is_risky_git, flatten(line.commands))):
            return None
        if not may_expand(command_files.list_patterns(line), self.policy, self.dirs):
            return None
        if found:
            return found
        writes = any(file.writes for file in line.files)
        # A condition or an assignment has no commands.
        runs = line.commands or not line.is_list
        return [] if reading and runs and not writes else None

    def allow_command(self, command: ShellCommand, *, reading: bool) -> list[Rule] | None:
        """Return the rules that allow a command, none if it only reads, or None to ask."""
        own = [rule for rule in self.rules if _allows(rule, command)]
        if command.inert:
            return own[:1]
        if not command.inner:
            reads = reading and not own and only_reads(command, self.policy, self.dirs)
            return [] if reads else own[:1] or None
        inner = [self.allow_command(each, reading=reading) for each in command.inner]
        merged = [rule for each in inner if each is not None for rule in each]
        if None not in inner and command.transparent:
            return merged
        if None not in inner and own:
            return own[:1] + merged
        if reading and runs_readers(command, self.policy, self.dirs):
            return []
        if None not in inner:
            return None
        programs = {each.name for each in flatten(command.inner)}
        spelling = [rule for rule in own if all(spells(rule, program) for program in programs)]
        return spelling[:1] or None

    def _is_risky_git(self, command: ShellCommand) -> bool:
        return command.program == "git" and not only_reads(command, self.policy, self.dirs)


def _allows(rule: Rule, command: ShellCommand) -> bool:
    return allows_command(rule, command) and all(
        spells(rule, word) for word in command.sensitive_words
    )


def mentions_words(rule: Rule, text: str) -> bool:
    """Does `text` contain all literal words of the rule?"""
    words = rule.literal_words
    return bool(words) and all(
        re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) for word in words
    )


def may_match(rule: Rule, command: ShellCommand) -> bool:
    """May the rule match the command, with other options or another order of words?

    `git -C . push` may be `git push`, `rm -fr` may be `rm -rf`, and `git $X` may be anything.
    """
    first, *others = (rule.pattern or "").removesuffix(":*").split() or [""]
    if not denies_text(Rule(rule.tool, first), command.program):
        return False
    given = command.words[1:]
    wanted = [word for word in others if not word.startswith("-") and word.strip("*")]
    options = [word.rstrip("*") for word in others if word.startswith("-")]
    if "*" in others[:-1]:
        found = all(any(_matches_word(word, each) for each in given) for word in wanted)
    else:
        found = _in_order(wanted, given)
    return found and (
        not options or any(_may_be_option(option, each) for option in options for each in given)
    )


def _matches_word(pattern: str, word: ShellWord) -> bool:
    return not word.known or denies_text(Rule("", pattern), word.text)


def _in_order(wanted: list[str], given: tuple[ShellWord, ...]) -> bool:
    """Are the words in this order, with only options and their values between them?"""
    at, after_option = 0, False
    for word in given:
        if at == len(wanted):
            return True
        if _matches_word(wanted[at], word):
            at += 1
        elif not word.text.startswith("-") and not after_option:
            return False
        after_option = word.text.startswith("-")
    return at == len(wanted)


def _may_be_option(option: str, word: ShellWord) -> bool:
    """May a word be this option, in its long form, its short form, or in a cluster?"""
    text = word.text
    if not word.known or text.startswith("+"):
        return True
    if not text.startswith("-") or text == "--":
        return False
    if option.startswith("--") and text.startswith("--"):
        name = text.partition("=")[0]
        return name.startswith(option) or option.startswith(name)
    return bool(_option_letters(option) & _option_letters(text))


def _option_letters(option: str) -> set[str]:
    return {option[2:3]} if option.startswith("--") else set(option[1:])

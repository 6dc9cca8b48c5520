"""Comparing rules with commands and other texts: `*` stands for anything."""

import re
from functools import lru_cache

from clew.permissions.globs import Glob, Step, any_letter, anything, beyond, glob
from clew.permissions.rules import Rule
from clew.permissions.shell.line import Command

_QUOTES = frozenset("\"'\\")
_BETWEEN_WORDS = "\0"
_STEPS: dict[str, str | Step] = {"*": anything, "?": any_letter}


def matches_text(rule: Rule, text: str) -> bool:
    """Does the rule's pattern match the whole of `text`?"""
    return rule.covers_all or _glob(rule.pattern or "", " ").matches(text)


def denies_text(rule: Rule, text: str, *, fold: bool = False) -> bool:
    """Does a rule that denies match `text`, with or without something behind it?"""
    if fold:
        rule, text = Rule(rule.tool, (rule.pattern or "").casefold()), text.casefold()
    return matches_text(rule, text) or (rule.prefix is not None and rule.prefix == text.rstrip())


def allows_command(rule: Rule, command: Command) -> bool:
    """Does an allow rule match a command, word for word?

    A blank in the pattern stands between two words: quotes cannot make one word of two. A
    pattern that has quotes itself is compared with the command as it is written.
    """
    if rule.covers_all:
        return True
    pattern = rule.pattern or ""
    if _QUOTES & set(pattern):
        return matches_text(rule, command.written)
    words = _BETWEEN_WORDS.join(word.text for word in command.words)
    if any(_BETWEEN_WORDS in word.text for word in command.words):
        return False
    return _glob(pattern, _BETWEEN_WORDS).matches(words)


def spells(rule: Rule, word: str) -> bool:
    """Does the rule name this word itself, not by a wildcard?"""
    return word in rule.literal_words


@lru_cache(maxsize=2048)
def _glob(pattern: str, blank: str) -> Glob:
    body, ending = re.sub(r"\*+", "*", pattern), list[Step]()
    for mark in (":*", " *"):
        # A `*` at the end also stands for nothing, unless there is another wildcard.
        if body.endswith(mark) and (mark == ":*" or body.count("*") == 1):
            body, ending = body.removesuffix(mark).rstrip(), [beyond(blank)]
            break
    if blank != " ":
        body = re.sub(r"\s+", blank, body)
    return glob([*(_STEPS.get(char, char) for char in body), *ending])

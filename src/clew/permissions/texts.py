"""Comparing rules with commands and other texts: `*` stands for anything."""

import re
from functools import lru_cache

from clew.permissions.rules import Rule
from clew.permissions.shell.line import Command

_QUOTES = frozenset("\"'\\")
_BETWEEN_WORDS = "\0"
_PIECES = {"*": ".*", "?": "."}


def matches_text(rule: Rule, text: str) -> bool:
    """Does the rule's pattern match the whole of `text`?"""
    return rule.covers_all or bool(_regex(rule.pattern or "", " ").fullmatch(text))


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
    return bool(_regex(pattern, _BETWEEN_WORDS).fullmatch(words))


def spells(rule: Rule, word: str) -> bool:
    """Does the rule name this word itself, not by a wildcard?"""
    return word in rule.literal_words


@lru_cache(maxsize=2048)
def _regex(pattern: str, blank: str) -> re.Pattern[str]:
    body, ending = re.sub(r"\*+", "*", pattern), ""
    separator = re.escape(blank)
    for mark in (":*", " *"):
        # A `*` at the end also stands for nothing, unless there is another wildcard.
        if body.endswith(mark) and (mark == ":*" or body.count("*") == 1):
            body, ending = body.removesuffix(mark).rstrip(), rf"(?:{separator}.*)?"
            break
    pieces = [
        separator if char.isspace() and blank != " " else _PIECES.get(char, re.escape(char))
        for char in (re.sub(r"\s+", " ", body) if blank != " " else body)
    ]
    return re.compile("".join(pieces) + ending, re.DOTALL)

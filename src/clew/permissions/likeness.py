"""Could a command be what a rule speaks of, though it is written otherwise?"""

import re

from clew.permissions.rules import Rule
from clew.permissions.shell.line import Command, Word
from clew.permissions.texts import denies_text


def words_appear(rule: Rule, text: str) -> bool:
    """Do all the words of the rule stand somewhere in `text`?"""
    words = rule.literal_words
    return bool(words) and all(
        re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) for word in words
    )


def may_be(rule: Rule, command: Command) -> bool:
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


def _is(pattern: str, word: Word) -> bool:
    return not word.known or denies_text(Rule("", pattern), word.text)


def _follows(wanted: list[str], given: tuple[Word, ...]) -> bool:
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


def _like(option: str, word: Word) -> bool:
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

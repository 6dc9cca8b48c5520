"""Values on the command line: parse them, and say what is wrong with them.

All functions raise `ArgumentTypeError`, which argparse shows with the name of the flag.
"""

import argparse


def parse_dollars(text: str) -> float:
    """Return an amount of money."""
    try:
        amount = float(text.removeprefix("$"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount in dollars") from None
    if not 0 < amount < 1e9:
        raise argparse.ArgumentTypeError(f"{text} is not a positive amount in dollars")
    return amount


def parse_count(text: str) -> int:
    """Return a positive number."""
    return _integer(text, minimum=1, maximum=1_000_000_000)


def parse_window(text: str) -> int:
    """Return a number of tokens that a context window may have."""
    return _integer(text, minimum=256, maximum=100_000_000)


def parse_port(text: str) -> int:
    """Return the number of a port; 0 for any free one."""
    return _integer(text, minimum=0, maximum=65_535)


def _integer(text: str, *, minimum: int, maximum: int) -> int:
    try:
        number = int(text.replace("_", "").replace(",", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer") from None
    if not minimum <= number <= maximum:
        raise argparse.ArgumentTypeError(f"{number} is not between {minimum} and {maximum}")
    return number


def parse_rules(text: str) -> list[str]:
    """Return permission rules, separated by commas or spaces outside parentheses."""
    rules, depth, current = [], 0, ""
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth == 0 and character in ", \n\t":
            rules.append(current)
            current = ""
        else:
            current += character
    found = [rule for rule in (*rules, current) if rule]
    if depth or not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list such as Edit,Bash(git *)")
    return found

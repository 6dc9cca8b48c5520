"""Numbers that belong to a person or a payment card, told by their form and their check digits.

A bare form would also match order numbers and timestamps. Where a kind of number has check
digits, they decide.
"""

import re
from collections.abc import Callable
from datetime import date
from typing import Final

from msgspec import Struct

CARD: Final = "payment-card number"

_DIHEDRAL = (
    *("0123456789", "1234067895", "2340178956", "3401289567", "4012395678"),
    *("5987604321", "6598710432", "7659821043", "8765932104", "9876543210"),
)
_PERMUTED = (
    *("0123456789", "1576283094", "5803796142", "8916043527"),
    *("9453126870", "4286573901", "2793806415", "7046913258"),
)
_CHINESE_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)


def luhn(digits: str) -> bool:
    """Do the digits of a card number check?"""
    doubled = (int(digit) * 2 for digit in digits[-2::-2])
    return (sum(map(int, digits[::-2])) + sum(d - 9 if d > 9 else d for d in doubled)) % 10 == 0


def verhoeff(digits: str) -> bool:
    """Do the digits of an Aadhaar number check?"""
    check = 0
    for place, digit in enumerate(reversed(digits)):
        check = int(_DIHEDRAL[check][int(_PERMUTED[place % 8][int(digit)])])
    return check == 0


def _cpf(digits: str) -> bool:
    def is_right(count: int) -> bool:
        total = sum(int(d) * w for d, w in zip(digits, range(count + 1, 1, -1), strict=False))
        return total * 10 % 11 % 10 == int(digits[count])

    return len(set(digits)) > 1 and is_right(9) and is_right(10)


def _chinese(digits: str) -> bool:
    total = sum(int(d) * w for d, w in zip(digits, _CHINESE_WEIGHTS, strict=False))
    return "10X98765432"[total % 11] == digits[17].upper() and _is_date(digits[6:14])


def _korean(digits: str) -> bool:
    century = "18" if digits[6] in "90" else "19" if digits[6] in "1256" else "20"
    return _is_date(century + digits[:6])


def _spanish(digits: str) -> bool:
    number = digits[:-1].translate(str.maketrans("XYZ", "012"))
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23] == digits[-1]


def _french(digits: str) -> bool:
    return 97 - int(digits[:13]) % 97 == int(digits[13:])


def _is_date(digits: str) -> bool:
    try:
        date.fromisoformat(f"{digits[:4]}-{digits[4:6]}-{digits[6:]}")
    except ValueError:
        return False
    return True


def _always(_digits: str) -> bool:
    return True


class _Number(Struct, frozen=True):
    """A kind of number."""

    kind: str
    pattern: re.Pattern[str]
    checks: Callable[[str], bool] = _always


def _number(kind: str, pattern: str, checks: Callable[[str], bool] = _always) -> _Number:
    return _Number(kind, re.compile(rf"(?<![\w])(?<!\d[.,-])(?:{pattern})(?!\w|[.,-]\d)"), checks)


_DIGITS = re.compile(r"(?<!\w)\d++(?!\w)(?:[ -]\d++(?!\w))*+")
_ISSUERS = re.compile(r"4|5[0-8]|2[2-7]|3[0-9]|6")
"""The first digits that card numbers have."""
_CARD_LENGTHS = range(12, 20)
_NUMBERS = (
    _number("US social security number", r"(?!000|666|9)\d{3}([- ])(?!00)\d\d\1(?!0000)\d{4}"),
    _number("Korean resident number", r"\d{6}-[0-9]\d{6}", _korean),
    _number(
        "British national insurance number",
        r"(?![DFIQUV])[A-Z](?![DFIQUVO])[A-Z] ?(?:\d\d ?){3}[A-D]",
    ),
    _number("Canadian social insurance number", r"[1-79]\d\d([- ])\d{3}\1\d{3}", luhn),
    _number("Brazilian CPF", r"\d{3}\.\d{3}\.\d{3}-\d\d", _cpf),
    _number("Indian Aadhaar number", r"[2-9]\d{3}([- ])\d{4}\1\d{4}", verhoeff),
    _number("Chinese resident number", r"[1-9]\d{16}[\dXx]", _chinese),
    _number("Spanish identity number", r"(?:\d{8}|[XYZ]-?\d{7})-?[A-HJ-NP-TV-Z]", _spanish),
    _number(
        "French social security number",
        r"[12] ?\d\d ?(?:0[1-9]|1[0-2]) ?\d\d ?\d{3} ?\d{3} ?\d\d",
        _french,
    ),
    _number("Italian tax code", r"[A-Z]{6}\d\d[A-EHLMPRST]\d\d[A-Z]\d{3}[A-Z]"),
)
_APART = re.compile(r"[ .-]")


def personal_number(text: str) -> str:
    """Return which kind of personal number stands in `text`; empty when none does."""
    if any(_has_card(found[0]) for found in _DIGITS.finditer(text)):
        return CARD
    for number in _NUMBERS:
        for found in number.pattern.finditer(text):
            if number.checks(_APART.sub("", found[0])):
                return number.kind
    return ""


def _has_card(digits: str) -> bool:
    """Is some part of the groups of digits a card number? Others may stand right beside it."""
    groups = _APART.split(digits)
    for start in range(len(groups)):
        number = ""
        for group in groups[start:]:
            number += group
            # Cards are printed in groups of four to six, and the last may be shorter.
            if len(group) < (3 if number != group else 4) or len(number) >= _CARD_LENGTHS.stop:
                break
            if len(number) in _CARD_LENGTHS and _ISSUERS.match(number) and luhn(number):
                return True
    return False

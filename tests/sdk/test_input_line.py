"""Lines that are no command: which one was meant."""

import pytest

from clew.sdk.input_line import similar_command

KNOWN = ["mode", "model", "undo", "context", "compact", "copy", "cost"]


@pytest.mark.req("CMD-1")
@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("modle", "model"),
        ("mod", "mode"),
        ("Unod", "undo"),
        ("contxt", "context"),
        ("xyz", ""),
    ],
)
def test_a_mistyped_command_is_answered_with_the_likeliest_one(typed: str, meant: str) -> None:
    assert similar_command(typed, KNOWN) == meant

"""What print mode makes of the effects that a terminal would apply."""

import pytest

from clew.cli.replies import make_reply
from clew.core.errors import SessionError
from clew.sdk.client import CommandOutcome, CopyText, NewSession, PickSession, SetTheme

pytestmark = pytest.mark.req("CLI-2")


def test_text_for_the_clipboard_is_printed() -> None:
    outcome = CommandOutcome(
        kind="command", name="copy", message="copied #2: 5 characters", effect=CopyText("hello")
    )

    assert make_reply(outcome, None).text == "hello"


@pytest.mark.parametrize("effect", [NewSession(), PickSession(), SetTheme("dark")])
def test_what_only_a_terminal_can_do_is_an_error(
    effect: NewSession | PickSession | SetTheme,
) -> None:
    outcome = CommandOutcome(kind="command", name="it", message="done", effect=effect)

    with pytest.raises(SessionError, match="/it works only at the interactive prompt"):
        make_reply(outcome, None)


def test_a_command_that_failed_is_an_error() -> None:
    outcome = CommandOutcome(kind="command", name="it", message="no", success=False)

    with pytest.raises(SessionError, match="no"):
        make_reply(outcome, None)

"""What the user said in a tool result: the reason for a refusal, or answers to questions.

The digest and Recall both attribute these words to the user, by the same rules.
"""

from functools import lru_cache

from clew.context.tool_arguments import READ_TOOLS, SHELL_TOOLS
from clew.core.messages import ToolResult

_INTRODUCTIONS = (
    "To tell you how to proceed, the user said:",
    "The user provided the following reason for the rejection:",
    "User has answered your questions:",
    "Your questions have been answered:",
    "Permission denied: the user said no:",
)
_WITHIN = 2_000
"""These words begin within this many characters; later ones are a quotation."""
_ADDITIONS = (
    "Note: The user's next message may contain a correction or preference.",
    "You can now continue with the user's answers in mind",
)


def find_answer(result: ToolResult) -> str:
    """Return what the user said in a tool result; empty if nothing.

    Files and the output of commands may quote such words; they count only if the call failed.
    """
    return find_words(result.text) if result.failed or may_quote_user(result.name) else ""


def find_words(text: str) -> str:
    """Return what the user said in the text of a result that may have words of the user."""
    beginning = text[:_WITHIN]
    for introduction in _INTRODUCTIONS:
        if introduction in beginning:
            break
    else:
        return ""
    words = text.partition(introduction)[2]
    for addition in _ADDITIONS:
        words = words.partition(addition)[0]
    return words.strip()


@lru_cache(maxsize=256)
def may_quote_user(name: str) -> bool:
    """Return whether a tool with this name may return words of the user without a failure."""
    return name.lower() not in READ_TOOLS and name.lower() not in SHELL_TOOLS

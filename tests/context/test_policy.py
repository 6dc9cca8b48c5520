"""A policy that cannot work is refused, with the reason."""

import pytest

from clew.context.policy import ContextPolicy
from clew.core.errors import ConfigError


@pytest.mark.req("CTX-6")
@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"economy": "lavish"}, "economy must be one of full, balanced, lean"),
        ({"preserve_recent_turns": 0}, "at least 1, but is 0"),
        ({"compress_tool_results": -1}, "true, false or a number above 0"),
        ({"max_tool_output_chars": 199}, "at least 200, but is 199"),
        ({"background_compaction": "later"}, "off, on or auto, not 'later'"),
        ({"usage_floor": -1}, "must not be negative"),
    ],
)
def test_a_wrong_field_is_refused(fields: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        ContextPolicy(**fields)  # type: ignore[arg-type]

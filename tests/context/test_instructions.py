"""What a project wants to survive a compaction."""

import pytest

from clew.context.instructions import compact_instructions


@pytest.mark.req("CMP-6")
@pytest.mark.parametrize(
    ("notes", "found"),
    [
        ("", ""),
        ("# Rules\nnone", ""),
        ("# Compact Instructions\nKeep names.\n# Other\nno", "Keep names."),
        (
            "## compact  instructions\nKeep.\n### More\nthis too\n# Top\nno",
            "Keep.\n### More\nthis too",
        ),
        (
            "# Compact Instructions\nKeep:\n```bash\n# run tests\nmake\n```\nand this\n# End",
            "Keep:\n```bash\n# run tests\nmake\n```\nand this",
        ),
        ("```\n# Compact Instructions\nan example\n```\n", ""),
        (
            "# Compact Instructions\n~~~~\n```\n# a\n~~~\n# b\n~~~~\nend",
            "~~~~\n```\n# a\n~~~\n# b\n~~~~\nend",
        ),
    ],
)
def test_the_section_is_found_and_ends_at_the_next_heading(notes: str, found: str) -> None:
    assert compact_instructions(notes) == found

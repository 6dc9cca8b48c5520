"""What becomes of the answer to a check of notes."""

from hypothesis import given
from hypothesis import strategies as st

from clew.context.estimate import text_units
from clew.context.summary_check import HEADING, add_points, build_check_prompt, parse_points

NOTES = "The user wants port 8080. The parser is done."


def test_the_points_are_read_from_any_kind_of_list() -> None:
    answer = "Missing:\n- the key is in config.toml\n * tests fail\n2. do not push\n\nThat is all."

    assert parse_points(answer) == ["the key is in config.toml", "tests fail", "do not push"]
    assert parse_points("NOTHING") == []
    assert len(parse_points("- again\n" * 500)) == 40


def test_new_points_are_appended_under_a_heading() -> None:
    points = ["the parser  is done.", "Do not push.", "do not PUSH.", "Use uv."]

    checked = add_points(NOTES, points, max_units=1_000)

    assert checked.text == f"{NOTES}\n\n{HEADING}\n- Do not push.\n- Use uv."
    assert checked.added == ("Do not push.", "Use uv.")
    assert checked.left_out == 0


@given(points=st.lists(st.text(max_size=60)), room=st.integers(0, 200))
def test_additions_stay_within_the_budget_and_never_change_the_notes(
    points: list[str], room: int
) -> None:
    checked = add_points(NOTES, points, max_units=room)

    assert checked.text.startswith(NOTES)
    assert text_units(checked.text) <= max(room, text_units(NOTES))
    assert all(f"\n- {point}" in checked.text for point in checked.added)
    assert len(checked.added) + checked.left_out <= len(points)


def test_the_prompt_has_the_notes_the_facts_and_the_transcript() -> None:
    prompt = build_check_prompt(NOTES, facts="Files: a.py", transcript=["user: hi"]).text

    assert prompt.index(NOTES) < prompt.index("Files: a.py") < prompt.index("user: hi")
    assert "Facts" not in build_check_prompt(NOTES, facts="", transcript=[]).text

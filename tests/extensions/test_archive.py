"""A collection of real plugins loads: every file is taken or refused with a reason."""

from pathlib import Path

import pytest

from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.skills import Skill, collect_skills, format_skill_list
from tests.extensions.archive import ARCHIVE, Count, lines, survey, unpack

pytestmark = [
    pytest.mark.req("SKL-1", "AGT-1"),
    pytest.mark.skipif(not ARCHIVE.is_file(), reason="the collection is not here"),
]


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Count]:
    return survey(unpack(tmp_path_factory.mktemp("archive")))


def skills_in(counts: dict[str, Count]) -> list[Skill]:
    loaded = counts["skills"].loaded + counts["commands"].loaded
    return [each for each in loaded if isinstance(each, Skill)]


def test_nothing_crashes_and_nothing_is_passed_over(
    counts: dict[str, Count], tmp_path: Path
) -> None:
    print("\n".join(lines(counts)))  # noqa: T201 - to be seen with -s or on failure

    files = list(unpack(tmp_path).rglob("*.md"))
    assert sum(len(each.crashed) for each in counts.values()) == 0
    assert sum(len(each.loaded) + len(each.refused) for each in counts.values()) == len(files)


def test_every_skill_and_command_loads(counts: dict[str, Count]) -> None:
    assert counts["skills"].refused == counts["commands"].refused == []
    assert len(counts["skills"].loaded) == 63
    assert len(counts["commands"].loaded) == 30
    assert all(skill.name for skill in skills_in(counts))
    assert [skill.name for skill in skills_in(counts) if not skill.description] == []


def test_the_only_texts_refused_say_of_themselves_that_they_are_no_agents(
    counts: dict[str, Count],
) -> None:
    assert len(counts["agents"].loaded) == 31
    assert {refused.why for refused in counts["agents"].refused} == {
        "does not define an agent: the frontmatter has no `description`"
    }
    assert len(counts["agents"].refused) == 3
    for agent in counts["agents"].loaded:
        assert isinstance(agent, AgentDefinition)
        assert agent.system_prompt


def test_the_whole_collection_fits_into_a_catalogue(counts: dict[str, Count]) -> None:
    found = collect_skills(skills_in(counts))

    listed = format_skill_list(found.skills, max_chars=8_000)

    assert len(listed) <= 8_000
    may = [skill for skill in found.skills if skill.model_invocable]
    assert listed.count("\n- ") + 1 == len(may)

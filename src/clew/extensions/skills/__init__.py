"""Skills: instructions in files that are read only when they are called."""

from collections.abc import Iterable

from clew.extensions.listing import listing
from clew.extensions.reading import Refused
from clew.extensions.skills.finding import Found, discover, scan_commands, scan_skills, sort_out
from clew.extensions.skills.rendering import render
from clew.extensions.skills.skill import Skill, Source

__all__ = [
    "Found",
    "Refused",
    "Skill",
    "Source",
    "catalogue",
    "discover",
    "render",
    "scan_commands",
    "scan_skills",
    "sort_out",
]


def catalogue(skills: Iterable[Skill], *, max_chars: int = 8_000) -> str:
    """Return what a model is told about the skills that it may call: names and descriptions.

    Long descriptions are shortened so that all names fit; if they do not, the last line says
    how many are left out.
    """
    entries = [
        (skill.name, f"{skill.description} {skill.when_to_use}")
        for skill in skills
        if skill.model_invocable
    ]
    return listing(entries, max_chars=max_chars, things="skills")

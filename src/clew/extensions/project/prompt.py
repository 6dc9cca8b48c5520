"""The system prompt: what a session tells its model before anything is said.

Sections come in a fixed order, from what hardly ever changes to what may: who the agent is,
the project's instructions, its memory, its open tasks, what can be invoked, and last the
facts of the day. The same parts give the same bytes, so a provider's cache of the prompt
holds. Nothing here tells the model how to behave but the identity and what files say.
"""

import re
from pathlib import Path

from msgspec import Struct

from clew.core.text import replace_surrogates
from clew.extensions.project.facts import ProjectFacts

IDENTITY = """\
You are Clew, an assistant that works in the user's project folder. Be brief and exact.
Use the tools to look at files before you speak about them. Say so when you do not know."""


class PromptSection(Struct, frozen=True, kw_only=True):
    """A further part of the prompt, with its heading."""

    title: str
    text: str


class PromptParts(Struct, frozen=True, kw_only=True):
    """What a system prompt is made of; a part that is empty leaves no trace."""

    identity: str = IDENTITY
    agents_md: str = ""
    """Blocks with the name of their file, as `load_project` gives them."""
    claude_md: str = ""
    memory: str = ""
    tasks: str = ""
    skills: str = ""
    """Names and descriptions only; a skill's text is read when it is invoked."""
    agents: str = ""
    """Names and descriptions; given only when subagents can be started."""
    extra: tuple[PromptSection, ...] = ()
    cwd: Path | None = None
    facts: ProjectFacts | None = None
    language: str = ""
    """The language of answers."""
    permission_mode: str = ""


def build_system_prompt(parts: PromptParts) -> str:
    """Put the parts together; the same parts always give the same text."""
    sections = (
        PromptSection(title="Project instructions: AGENTS.md", text=parts.agents_md),
        PromptSection(title="Project instructions: CLAUDE.md", text=parts.claude_md),
        PromptSection(title="Project Memory", text=_marked("memory", parts.memory)),
        PromptSection(title="Active Task Context", text=_marked("tasks", parts.tasks)),
        PromptSection(title="Skills", text=_marked("skills", parts.skills)),
        PromptSection(title="Agents", text=_marked("agents", parts.agents)),
        *parts.extra,
        PromptSection(title="Environment", text="\n".join(_environment(parts))),
    )
    told = (
        f"# {escape_line(each.title)}\n\n{each.text.strip()}"
        for each in sections
        if each.text.strip()
    )
    return "\n\n".join(text for text in (parts.identity.strip(), *told) if text)


def _marked(tag: str, text: str) -> str:
    return wrap_in_tag(tag, text) if text.strip() else ""


def _environment(parts: PromptParts) -> list[str]:
    facts = parts.facts
    pairs: list[tuple[str, str]] = [("Working directory", str(parts.cwd or ""))]
    if facts is not None:
        pairs += [
            ("Project root", "" if facts.root == parts.cwd else str(facts.root)),
            ("Languages", ", ".join(facts.languages)),
            ("Package managers and build tools", ", ".join(facts.managers)),
            ("Test commands", ", ".join(facts.tests)),
            ("Told from", ", ".join(facts.markers)),
            ("Git branch at the start", facts.branch),
            ("Platform", facts.platform),
            ("Date at the start", facts.date),
        ]
    pairs += [
        ("Response language", escape_line(parts.language.strip(), 80)),
        ("Permission mode", parts.permission_mode),
    ]
    return [f"- {name}: {escape_line(value)}" for name, value in pairs if value.strip()]


_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_MARKS = str.maketrans('"<>', "___")


def wrap_in_tag(tag: str, text: str, *, path: str = "") -> str:
    """Return `text` between a tag and its end; the tag is one that `text` cannot close.

    Args:
        tag: What it is, in one word.
        text: Anything; it is left as it is, but for empty lines around it.
        path: Which file it is from.
    """
    name = choose_tag(tag, text)
    source = f' path="{escape_line(path).translate(_MARKS)}"' if path else ""
    inside = text.strip("\n")
    return f"<{name}{source}>\n{inside}\n</{name}>"


def choose_tag(tag: str, text: str) -> str:
    """Return `tag`, with the first number behind it for which `text` holds no such tag."""
    taken = set(re.findall(rf"<\s*/?\s*({re.escape(tag)}(?:-\d+)?)\b", text, re.IGNORECASE))
    lowered = {name.lower() for name in taken}
    number = 1
    name = tag
    while name.lower() in lowered:
        number += 1
        name = f"{tag}-{number}"
    return name


def escape_line(text: str, most: int = 4_096) -> str:
    """Return `text` as part of a line: nothing in it begins another."""
    plain = _BREAKS.sub("_", replace_surrogates(text))
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"

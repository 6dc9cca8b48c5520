"""The system prompt of a session.

Sections have a fixed order, from stable to changing: identity, project instructions, memory, open
tasks, skills and agents, and last the environment. The same parts give the same bytes, so the
provider's prompt cache stays valid. Only the identity and the project's files tell the model how
to behave.
"""

import re
from pathlib import Path

from msgspec import Struct

from clew.core.text import replace_surrogates
from clew.extensions.project.facts import ProjectFacts

IDENTITY = """\
You are Clew, an assistant that works in the user's project folder. Be brief and exact.
Use the tools to read files before you talk about them. Say so when you do not know."""


class PromptSection(Struct, frozen=True, kw_only=True):
    """An additional section of the prompt."""

    title: str
    text: str


class PromptParts(Struct, frozen=True, kw_only=True):
    """The parts of a system prompt; empty parts are omitted."""

    identity: str = IDENTITY
    agents_md: str = ""
    """Text in tags with the path of its file, as `load_project` returns it."""
    claude_md: str = ""
    memory: str = ""
    tasks: str = ""
    skills: str = ""
    """Names and descriptions; the text of a skill is read when it is called."""
    agents: str = ""
    """Names and descriptions; empty if agents cannot be started."""
    extra: tuple[PromptSection, ...] = ()
    cwd: Path | None = None
    facts: ProjectFacts | None = None
    language: str = ""
    """The language of answers."""
    permission_mode: str = ""


def build_system_prompt(parts: PromptParts) -> str:
    """Build the prompt; the same parts always give the same text."""
    sections = (
        PromptSection(title="Project instructions: AGENTS.md", text=parts.agents_md),
        PromptSection(title="Project instructions: CLAUDE.md", text=parts.claude_md),
        PromptSection(title="Project Memory", text=_wrap_section("memory", parts.memory)),
        PromptSection(title="Active Task Context", text=_wrap_section("tasks", parts.tasks)),
        PromptSection(title="Skills", text=_wrap_section("skills", parts.skills)),
        PromptSection(title="Agents", text=_wrap_section("agents", parts.agents)),
        *parts.extra,
        PromptSection(title="Environment", text="\n".join(_environment(parts))),
    )
    texts = (
        f"# {escape_line(each.title)}\n\n{each.text.strip()}"
        for each in sections
        if each.text.strip()
    )
    return "\n\n".join(text for text in (parts.identity.strip(), *texts) if text)


def _wrap_section(tag: str, text: str) -> str:
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
            ("Detected from", ", ".join(facts.markers)),
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
    """Return `text` in a tag that `text` itself cannot close.

    Args:
        tag: The name of the tag.
        text: Any text; only empty lines around it are removed.
        path: The file that it comes from.
    """
    name = choose_tag(tag, text)
    source = f' path="{escape_line(path).translate(_MARKS)}"' if path else ""
    inside = text.strip("\n")
    return f"<{name}{source}>\n{inside}\n</{name}>"


def choose_tag(tag: str, text: str) -> str:
    """Return `tag`, with a number appended if `text` contains that tag."""
    taken = set(re.findall(rf"<\s*/?\s*({re.escape(tag)}(?:-\d+)?)\b", text, re.IGNORECASE))
    lowered = {name.lower() for name in taken}
    number = 1
    name = tag
    while name.lower() in lowered:
        number += 1
        name = f"{tag}-{number}"
    return name


def escape_line(text: str, most: int = 4_096) -> str:
    """Return `text` with `_` in place of control characters and line breaks."""
    plain = _BREAKS.sub("_", replace_surrogates(text))
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"

"""The pages of the reference as Markdown."""

import re
from collections.abc import Iterator, Mapping

from scripts.reference import flags
from scripts.reference.docstrings import Member, Module, Thing, public_names, read_module
from scripts.reference.pages import PAGES, Page

_SECTION = re.compile(r"^(Args|Returns|Raises|Yields):$")
_ITEM = re.compile(r"^ {4}(\S[^:]*): (.*)$")
_NOTE = "<!-- Generated from the docstrings by `python -m scripts.reference`; do not edit. -->"


def pages() -> dict[str, str]:
    """Return all files of the reference by name."""
    names = public_names()
    modules = {page.name: [_read(spec) for spec in page.modules] for page in PAGES}
    written = {f"{page.name}.md": _page(page, modules[page.name], names) for page in PAGES}
    return {
        "README.md": _index(modules, names),
        "cli.md": f"{_NOTE}\n\n{flags.page()}",
        **written,
    }


def markdown(doc: str) -> str:
    """Return a docstring as Markdown: its sections become lists."""
    lines: list[str] = []
    section = ""
    for line in doc.splitlines():
        found = _SECTION.match(line)
        if found:
            section = found[1]
            lines += [f"**{section}**", ""]
        elif not section or not line.strip():
            lines.append(_harmless(line))
            section = section if line.strip() else ""
        else:
            lines.append(_section_line(line))
    return "\n".join(lines).strip()


def _section_line(line: str) -> str:
    item = _ITEM.match(line)
    if item:
        return f"- `{item[1]}`: {_harmless(item[2])}"
    indent = "  " if line.startswith("     ") else ""
    return f"{indent}{_harmless(line.strip())}"


def _read(spec: str) -> Module:
    name, _, only = spec.partition(":")
    return read_module(name, only.split(",") if only else ())


def _page(page: Page, modules: list[Module], names: Mapping[str, str]) -> str:
    parts = [_NOTE, f"# {page.title}", page.intro]
    for module in modules:
        parts += [f"## {module.name}", markdown(module.doc)]
        for thing in module.things:
            parts += _thing(thing, public=names.get(thing.name) == module.name)
    return "\n\n".join(part for part in parts if part) + "\n"


def _thing(thing: Thing, *, public: bool) -> Iterator[str]:
    yield f"### {thing.name}"
    if public:
        yield f"`from clew import {thing.name}`"
    yield _code(thing.code)
    yield markdown(thing.doc)
    if thing.fields:
        yield "\n".join(["| field | type | meaning |", "|---|---|---|", *map(_row, thing.fields)])
    for member in thing.members:
        yield _code(member.code)
        yield markdown(member.doc)


def _row(member: Member) -> str:
    meaning = " ".join(_harmless(line) for line in member.doc.split("\n\n")[0].splitlines())
    return f"| `{member.name}` | `{_cell(member.code)}` | {_cell(meaning)} |"


def _index(modules: Mapping[str, list[Module]], names: Mapping[str, str]) -> str:
    rows = [
        f"| [{page.title}]({page.name}.md) | {_modules(modules[page.name])} |" for page in PAGES
    ]
    places = {
        (module.name, thing.name): (page, thing.doc or module.doc)
        for page, found in modules.items()
        for module in found
        for thing in module.things
    }
    listed = []
    for name, module in sorted(names.items()):
        page, doc = places[module, name]
        first = _harmless(" ".join(doc.split("\n\n")[0].split()))
        listed.append(f"| [`{name}`]({page}.md#{name.lower()}) | {_cell(first)} |")
    return "\n".join(
        [
            _NOTE,
            "",
            "# Reference",
            "",
            "Every public class and function, from the docstrings. The"
            " [guides](../../README.md#guides) show how to use them.",
            "",
            "| page | modules |",
            "|---|---|",
            "| [The command line](cli.md) | `clew` and its subcommands |",
            *rows,
            "",
            "## Names in `clew`",
            "",
            "| name | what it is |",
            "|---|---|",
            *listed,
            "",
        ]
    )


def _modules(modules: list[Module]) -> str:
    return ", ".join(f"`{module.name.removeprefix('clew.')}`" for module in modules)


def _code(code: str) -> str:
    return f"```python\n{code}\n```"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _harmless(line: str) -> str:
    """Escape what would pass for HTML outside of code."""
    if line.startswith("    "):
        return line
    pieces = line.split("`")
    return "`".join(
        piece if place % 2 else piece.replace("<", "&lt;") for place, piece in enumerate(pieces)
    )

"""Answers as lines: Markdown, with tables and highlighted code by `rich`.

Every top-level block is rendered on its own, with a blank line between two of them, so an answer
that is printed part by part looks like one that is printed at once.
"""

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from markdown_it.tree import SyntaxTreeNode
from rich import box
from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from clew.tui.markdown_blocks import make_parser, replace_returns
from clew.tui.rendering.lines import (
    TAB_STOPS,
    Line,
    Span,
    chop_line,
    count_line,
    strip_end,
    wrap_line,
    write_line,
)
from clew.tui.theme import Theme

_parser = make_parser()
_LEAST_COLUMN = 6
"""A table whose columns would be narrower is shown as a list."""
_LEAST_WIDTH = 8
"""Nested blocks are not indented further if less room than this is left."""
_MAX_HIGHLIGHTED = 40_000
"""Longer code is shown without colours."""
_DEFAULT_COLOURS = frozenset({"39", "49"})
_INLINE_STYLES = {"em": "italic", "strong": "bold", "s": "strike"}


def render_markdown(text: str, *, width: int, theme: Theme) -> list[Line]:
    """Return Markdown as lines of at most `width` columns."""
    root = SyntaxTreeNode(_parser.parse(theme.clean(replace_returns(text))))
    return _Renderer(theme).render_blocks(root.children, width)


@dataclass(frozen=True, slots=True)
class _Renderer:
    theme: Theme

    def render_blocks(
        self, nodes: Sequence[SyntaxTreeNode], width: int, *, tight: bool = False
    ) -> list[Line]:
        """Return blocks one below the other, with blank lines between them unless `tight`."""
        lines: list[Line] = []
        for node in nodes:
            made = self._render(node, width)
            if made and lines and not tight:
                lines.append(())
            lines += made
        return lines

    def _render(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        match node.type:
            case "heading":
                return self._render_heading(node, width)
            case "fence" | "code_block":
                return self._render_code(node, width)
            case "blockquote":
                bar = (Span(f"{self.theme.glyph('│')} ", self.theme.sgr("quote")),)
                return self._indent(node.children, width, bar, bar)
            case "bullet_list" | "ordered_list":
                return self._render_list(node, width)
            case "hr":
                rule = self.theme.glyph("─") if not self.theme.is_plain else "-"
                return [(Span(rule * min(width, 40), self.theme.sgr("dim")),)]
            case "table":
                return self._render_table(node, width)
            case _:
                return self._wrap(self.inline(node), width)

    def _render_heading(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        style = self.theme.sgr("heading")
        mark = "" if self.theme.has_colours else f"{node.markup} "
        mark = mark if mark.startswith("#") else ""
        rows = [
            [Span(span.text, _join(style, span.sgr)) for span in row] for row in self.inline(node)
        ]
        return self._wrap([[Span(mark, style), *row] for row in rows], width)

    def _render_code(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        code = node.content.rstrip("\n").expandtabs(TAB_STOPS)
        language = node.info.split(maxsplit=1)[0] if node.info.strip() else ""
        indent: Line = (Span("  "),) if width > 2 * _LEAST_WIDTH else ()
        room = width - count_line(indent)
        return [
            (*indent, *row)
            for line in self._highlight(code, language)
            for row in chop_line(line, room)
        ]

    def _highlight(self, code: str, language: str) -> Iterable[Line]:
        if not (language and self.theme.code_theme) or len(code) > _MAX_HIGHLIGHTED:
            return [(Span(line),) for line in code.split("\n")]
        return _highlight(code, language, self.theme.code_theme)

    def _render_list(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        first = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
        last = 0 if first is None else first + len(node.children) - 1
        tight = all(_is_tight(item) for item in node.children)
        lines: list[Line] = []
        for at, item in enumerate(node.children):
            mark = self.theme.glyph("•")
            if first is not None:
                mark = f"{first + at}.".rjust(len(f"{last}."))
            begin = (Span(f"{mark} ", self.theme.sgr("marker")),)
            rest = (Span(" " * count_line(begin)),)
            if lines and not tight:
                lines.append(())
            lines += self._indent(item.children, width, begin, rest, tight=tight) or [begin]
        return lines

    def _indent(
        self,
        nodes: Sequence[SyntaxTreeNode],
        width: int,
        begin: Line,
        rest: Line,
        *,
        tight: bool = False,
    ) -> list[Line]:
        room = width - count_line(begin)
        if room < _LEAST_WIDTH:
            return [begin, *self.render_blocks(nodes, width, tight=tight)]
        inner = self.render_blocks(nodes, room, tight=tight)
        return [(*(rest if at else begin), *line) for at, line in enumerate(inner)]

    def _render_table(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        rows = [
            [self._cell(cell) for cell in row.children]
            for part in node.children
            for row in part.children
        ]
        head, *body = rows
        if len(head) * (_LEAST_COLUMN + 2) > width:
            return self._render_records(head, body, width)
        table = Table(
            box=box.ASCII2 if self.theme.is_plain or not self.theme.is_unicode else box.ROUNDED,
            border_style=Style(dim=True) if self.theme.has_colours else "",
        )
        if self.theme.is_plain:
            table.box = None
        aligned = [cell.attrs.get("style", "") for cell in node.children[0].children[0].children]
        for cell, style in zip(head, aligned, strict=True):
            justify = "right" if "right" in str(style) else "left"
            title = _as_text(cell, bold=self.theme.has_colours)
            table.add_column(title, justify=justify, overflow="fold")  # type: ignore[arg-type]
        for row in body:
            table.add_row(*(_as_text(cell) for cell in row))
        return _render_rich(table, width, colours=self.theme.has_colours)

    def _render_records(
        self, head: Sequence[Line], body: Sequence[Sequence[Line]], width: int
    ) -> list[Line]:
        """Return a table that is too wide as one list of `title: value` for each row."""
        lines: list[Line] = []
        for row in body or [[()] * len(head)]:
            if lines:
                lines.append(())
            for title, cell in zip(head, row, strict=False):
                name = [Span(span.text, _join(self.theme.sgr("bold"), span.sgr)) for span in title]
                lines += wrap_line((*name, Span(": "), *cell), width, rest=(Span("  "),))
        return lines

    def _cell(self, node: SyntaxTreeNode) -> Line:
        return tuple(span for row in self.inline(node) for span in row)

    def _wrap(self, rows: Iterable[Sequence[Span]], width: int) -> list[Line]:
        return [line for row in rows for line in wrap_line(row, width)]

    def inline(self, node: SyntaxTreeNode) -> list[list[Span]]:
        """Return the text of a block as rows of spans; a line break begins a new row."""
        rows: list[list[Span]] = [[]]
        for span in self._spans(node, ""):
            if span.text == "\n":
                rows.append([])
            else:
                rows[-1].append(span)
        return rows

    def _spans(self, node: SyntaxTreeNode, sgr: str) -> Iterator[Span]:
        for child in node.children:
            match child.type:
                case "softbreak" | "hardbreak":
                    yield Span("\n")
                case "code_inline":
                    mark = "" if self.theme.has_colours else "`"
                    text = f"{mark}{child.content}{mark}".expandtabs(TAB_STOPS)
                    yield Span(text, _join(sgr, self.theme.sgr("code")))
                case "link":
                    yield from self._link(child, sgr)
                case "image":
                    alt = child.content or "image"
                    yield Span(f"[{alt}] ({child.attrs.get('src', '')})", sgr)
                case "em" | "strong" | "s" | "inline":
                    style = self.theme.sgr(_INLINE_STYLES.get(child.type, ""))
                    yield from self._spans(child, _join(sgr, style))
                case _:
                    yield Span(child.content.expandtabs(TAB_STOPS), sgr)

    def _link(self, node: SyntaxTreeNode, sgr: str) -> Iterator[Span]:
        shown = list(self._spans(node, _join(sgr, self.theme.sgr("link"))))
        yield from shown
        address = str(node.attrs.get("href", ""))
        text = "".join(span.text for span in shown)
        if address and address.removeprefix("mailto:") != text:
            yield Span(f" ({address})", _join(sgr, self.theme.sgr("dim")))


def _is_tight(item: SyntaxTreeNode) -> bool:
    """Return whether the paragraphs of a list item stand without blank lines around them."""
    return all(child.hidden for child in item.children if child.type == "paragraph")


def _join(*styles: str) -> str:
    return ";".join(style for style in styles if style)


@lru_cache(maxsize=32)
def _highlight(code: str, language: str, theme: str) -> tuple[Line, ...]:
    syntax = Syntax("", language, theme=theme, background_color="default")
    text = syntax.highlight(code)
    text.rstrip()
    return tuple(_to_line(line) for line in text.split("\n", allow_blank=True))


@lru_cache(maxsize=4)
def _console() -> Console:
    return Console(
        file=io.StringIO(),
        force_terminal=True,
        color_system="standard",
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
        _environ={},
    )


def _render_rich(table: Table, width: int, *, colours: bool) -> list[Line]:
    console = _console()
    options = console.options.update(width=width, height=None)
    return [
        strip_end(
            tuple(
                Span(segment.text, _sgr(segment.style) if colours else "")
                for segment in row
                if segment.text
            )
        )
        for row in console.render_lines(table, options, pad=False)
    ]


def _to_line(text: Text) -> Line:
    return tuple(
        Span(segment.text, _sgr(segment.style))
        for segment in text.render(_console())
        if segment.text and segment.text != "\n"
    )


def _as_text(line: Line, *, bold: bool = False) -> Text:
    # The text was sanitized, so the only sequences in it are our own.
    text = Text.from_ansi(write_line(line))
    if bold:
        text.stylize("bold")
    return text


@lru_cache(maxsize=512)
def _sgr(style: Style | None) -> str:
    """Return the SGR parameters of a style of `rich`."""
    if style is None:
        return ""
    written = style.render("x", color_system=ColorSystem.STANDARD)
    codes = written.partition("\x1b[")[2].partition("m")[0].split(";")
    return ";".join(code for code in codes if code not in _DEFAULT_COLOURS)

"""The manifest of a plugin: `.claude-plugin/plugin.json`, as Claude Code defines it.

A marketplace describes a plugin with the same fields, so its entries are read here too. Only the
name is required. A field with a mistake is reported and ignored, unless the plugin would then do
something else than its author meant.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.core.errors import ConfigError
from clew.core.json_text import decode_json
from clew.core.text import one_line
from clew.extensions.discovery import Refused, read_whole

MANIFEST = Path(".claude-plugin", "plugin.json")
"""Where the manifest is in the folder of a plugin."""
PART_FOLDERS = ("skills", "commands", "agents", "hooks")
"""A plugin without a manifest has at least one of these folders."""
MAX_PATHS = 200
"""Paths that one field may list."""

ProblemKind: TypeAlias = Literal[
    "missing", "outside", "unreadable", "malformed", "unsupported", "duplicate", "conflict"
]
"""Why a plugin or a part of it is not used:

- `missing`: it does not exist;
- `outside`: its path leads out of the plugin's folder;
- `unreadable`: it is too large, not a text file, or may not be read;
- `malformed`: it is not JSON, or something in it has the wrong type;
- `unsupported`: Clew has nothing that does this;
- `duplicate`: another part has the same name;
- `conflict`: the manifest and the marketplace contradict each other.
"""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RESERVED = frozenset({"builtin", "skill", "plugin", "mcp", "user", "project"})
"""Names that qualify the commands of other sources."""
_UNSUPPORTED = (
    "lspServers",
    "outputStyles",
    "monitors",
    "themes",
    "settings",
    "channels",
    "userConfig",
    "dependencies",
    "workflows",
    "experimental",
)
"""Fields of Claude Code that would change a session, and have no effect in Clew."""
_MAX_TEXT = 2_000
_MAX_WORDS = 100


class PluginProblem(Struct, frozen=True, kw_only=True):
    """Something in a plugin that is not used; the rest of the plugin works."""

    kind: ProblemKind
    where: str
    """A path in the plugin, or a field of the manifest."""
    why: str
    """Continues the sentence that begins with `where`: `does not exist`."""

    def __str__(self) -> str:
        return one_line(f"{self.where} {self.why}", 400)


class PluginError(ConfigError):
    """A plugin cannot be loaded at all; `kind` is the reason for programs."""

    def __init__(self, message: str, *, kind: ProblemKind) -> None:
        super().__init__(one_line(message, 600))
        self.kind = kind


class Author(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who wrote a plugin."""

    name: str = ""
    email: str = ""
    url: str = ""


class CommandFile(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A command that the manifest names itself."""

    source: str
    """The path of its file."""
    description: str = ""
    argument_hint: str = ""


class PluginManifest(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a plugin says about itself. Paths are relative to its folder, and not checked yet."""

    name: str
    version: str = ""
    display_name: str = ""
    description: str = ""
    author: Author = Author()
    homepage: str = ""
    repository: str = ""
    license: str = ""
    keywords: tuple[str, ...] = ()
    commands: tuple[str, ...] | None = None
    """Files or folders instead of `commands/`; None for that folder."""
    named_commands: dict[str, CommandFile] = {}
    """Commands by name, instead of `commands/`."""
    agents: tuple[str, ...] | None = None
    """Files or folders instead of `agents/`; None for that folder."""
    skills: tuple[str, ...] | None = None
    """Folders besides `skills/`."""
    hooks: tuple[str | dict[str, Any], ...] = ()
    """Files or `hooks` sections besides `hooks/hooks.json`."""
    mcp_servers: tuple[str | dict[str, Any], ...] = ()
    """Files or `mcpServers` sections besides `.mcp.json`."""
    unsupported: tuple[str, ...] = ()
    """Fields that would change a session and that Clew cannot carry out."""

    @property
    def has_parts(self) -> bool:
        """True when the manifest itself says what the plugin consists of."""
        lists = (self.commands, self.agents, self.skills)
        given = any(one is not None for one in lists)
        return given or bool(self.named_commands or self.hooks or self.mcp_servers)


class ParsedManifest(Struct, frozen=True, kw_only=True):
    """A manifest, and the fields in it that are ignored."""

    manifest: PluginManifest
    problems: tuple[PluginProblem, ...] = ()


def read_manifest(root: Path) -> ParsedManifest | None:
    """Read the manifest in the folder of a plugin; None if it has none.

    Raises:
        PluginError: The manifest cannot be read, or it is malformed.
    """
    path = root / MANIFEST
    if not path.is_symlink() and not path.exists():
        return None
    text = read_whole(path, tree=root)
    if isinstance(text, Refused):
        raise PluginError(str(text), kind="unreadable")
    return parse_manifest(parse_json(text, MANIFEST.as_posix()), where=MANIFEST.as_posix())


def parse_json(text: str, where: str) -> dict[str, Any]:
    """Return the JSON object of a file.

    Raises:
        PluginError: It is not JSON, or not an object.
    """
    try:
        document = decode_json(text.removeprefix("\ufeff"))
    except (msgspec.DecodeError, UnicodeError) as error:
        raise PluginError(f"{where} is not valid JSON: {error}", kind="malformed") from error
    if not isinstance(document, dict):
        raise PluginError(f"{where} must contain a JSON object", kind="malformed")
    return document


def parse_manifest(document: Mapping[str, Any], *, where: str) -> ParsedManifest:
    """Return the manifest of a decoded document, which may be an entry of a marketplace.

    Args:
        document: The fields.
        where: The file, for messages.

    Raises:
        PluginError: The name is missing or not allowed, or a field that says what the plugin
            consists of has the wrong type.
    """
    problems: list[PluginProblem] = []

    def text(key: str) -> str:
        value = document.get(key, "")
        if isinstance(value, str):
            return one_line(value, _MAX_TEXT)
        problems.append(_wrong(key, "a string"))
        return ""

    def paths(key: str) -> tuple[str, ...] | None:
        return _paths(document[key], key, where) if document.get(key) is not None else None

    commands, named = document.get("commands"), {}
    if isinstance(commands, dict):
        named = _named_commands(commands, where)
        commands = ()
    manifest = PluginManifest(
        name=check_name(document.get("name"), where=where),
        version=text("version"),
        display_name=text("displayName"),
        description=text("description"),
        author=_author(document.get("author"), problems),
        homepage=text("homepage"),
        repository=_repository(document.get("repository"), problems),
        license=text("license"),
        keywords=_keywords(document.get("keywords"), problems),
        commands=None if commands is None else _paths(commands, "commands", where),
        named_commands=named,
        agents=paths("agents"),
        skills=paths("skills"),
        hooks=_sections(document.get("hooks"), "hooks", where),
        mcp_servers=_sections(document.get("mcpServers"), "mcpServers", where),
        unsupported=tuple(key for key in _UNSUPPORTED if document.get(key)),
    )
    return ParsedManifest(manifest=manifest, problems=tuple(problems))


def check_name(name: object, *, where: str) -> str:
    """Return the name of a plugin.

    Raises:
        PluginError: It is missing or not allowed.
    """
    allowed = "a name has 1 to 64 letters, digits, `-`, `_` or `.` and begins with one of the first"
    if not isinstance(name, str) or not name:
        raise PluginError(f"{where} has no name; {allowed}", kind="malformed")
    if not _NAME.fullmatch(name):
        raise PluginError(f"{where}: {name!r:.80} is not a valid name; {allowed}", kind="malformed")
    if name.lower() in _RESERVED:
        raise PluginError(f"{where}: the name {name} is reserved", kind="malformed")
    return name


def merge_manifests(own: PluginManifest, listed: PluginManifest, *, strict: bool) -> PluginManifest:
    """Return the manifest of a plugin that a marketplace describes too.

    Args:
        own: The plugin's own manifest.
        listed: The entry of the marketplace.
        strict: True when both apply: the plugin's own fields win, and paths add up. False when the
            entry alone says what the plugin consists of.

    Raises:
        PluginError: The plugin's manifest says what it consists of, and so does the entry alone.
    """
    if not strict:
        if own.has_parts:
            raise PluginError(
                f"the plugin {own.name} and its marketplace (strict: false) both say what it"
                " consists of; ask its author to remove one of the two",
                kind="conflict",
            )
        return _fill(listed, own)
    return replace(
        _fill(own, listed),
        commands=_join(own.commands, listed.commands),
        named_commands={**listed.named_commands, **own.named_commands},
        agents=_join(own.agents, listed.agents),
        skills=_join(own.skills, listed.skills),
        hooks=(*own.hooks, *listed.hooks),
        mcp_servers=(*own.mcp_servers, *listed.mcp_servers),
        unsupported=tuple(dict.fromkeys((*own.unsupported, *listed.unsupported))),
    )


def _fill(first: PluginManifest, second: PluginManifest) -> PluginManifest:
    """Return the first manifest with the second one's texts where it has none."""
    texts = ("version", "display_name", "description", "homepage", "repository", "license")
    found = {name: getattr(first, name) or getattr(second, name) for name in texts}
    return replace(
        first,
        **found,
        author=first.author if first.author != Author() else second.author,
        keywords=first.keywords or second.keywords,
    )


def _join(one: tuple[str, ...] | None, two: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if one is None or two is None:
        return two if one is None else one
    return tuple(dict.fromkeys((*one, *two)))


def _paths(value: object, key: str, where: str) -> tuple[str, ...]:
    found = [value] if isinstance(value, str) else value
    if not _is_list_of(found, str):
        raise PluginError(f"{where}: {key} must be a path or a list of paths", kind="malformed")
    return _limit(found, key, where)


def _sections(value: object, key: str, where: str) -> tuple[str | dict[str, Any], ...]:
    found = [] if value is None else value if isinstance(value, list) else [value]
    if not _is_list_of(found, (str, dict)):
        raise PluginError(
            f"{where}: {key} must be an object, a path, or a list of these", kind="malformed"
        )
    return _limit(found, key, where)


def _limit(found: Any, key: str, where: str) -> tuple[Any, ...]:
    if len(found) > MAX_PATHS:
        raise PluginError(f"{where}: {key} has more than {MAX_PATHS} paths", kind="malformed")
    return tuple(found)


def _named_commands(value: Mapping[str, Any], where: str) -> dict[str, CommandFile]:
    try:
        found = msgspec.convert(value, dict[str, CommandFile])
    except msgspec.ValidationError as error:
        raise PluginError(
            f"{where}: commands must be paths, or objects with a source: {error}", kind="malformed"
        ) from error
    _limit(found, "commands", where)
    return found


def _author(value: object, problems: list[PluginProblem]) -> Author:
    match value:
        case None:
            return Author()
        case str():
            return Author(name=one_line(value, _MAX_TEXT))
        case dict():
            given = {key: value.get(key) or "" for key in ("name", "email", "url")}
            if all(isinstance(one, str) for one in given.values()):
                return Author(**{key: one_line(one, _MAX_TEXT) for key, one in given.items()})
    problems.append(_wrong("author", "an object with name, email and url"))
    return Author()


def _repository(value: object, problems: list[PluginProblem]) -> str:
    url = value.get("url") if isinstance(value, dict) else value
    if url is None or isinstance(url, str):
        return one_line(url or "", _MAX_TEXT)
    problems.append(_wrong("repository", "an address"))
    return ""


def _keywords(value: object, problems: list[PluginProblem]) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, list) and _is_list_of(value, str):
        return tuple(one_line(word, _MAX_WORDS) for word in value[:_MAX_WORDS])
    problems.append(_wrong("keywords", "a list of strings"))
    return ()


def _is_list_of(value: object, kind: type | tuple[type, ...]) -> bool:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return is_list and all(isinstance(one, kind) for one in value)  # type: ignore[attr-defined]


def _wrong(key: str, allowed: str) -> PluginProblem:
    return PluginProblem(kind="malformed", where=key, why=f"must be {allowed}; it is ignored")

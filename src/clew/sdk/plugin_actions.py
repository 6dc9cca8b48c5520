"""What `clew plugin` and `/plugin` do: each action changes something and says what it did.

Where the user must agree, an action asks through `agree`: a terminal asks a question, a session
shows what a plugin adds and waits for a second command.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from anyio import to_thread
from msgspec import Struct, field

from clew.core.errors import ConfigError
from clew.core.sanitize import sanitize_line
from clew.core.text import pluralize
from clew.sdk.plugins import (
    InstalledPlugin,
    Marketplace,
    Offer,
    PluginRow,
    Plugins,
    PreparedPlugin,
    ReadMarketplace,
    Scope,
    Validated,
    describe_source,
    format_change,
    format_summary,
)
from clew.sdk.plugins import validate as read_validated

_MAX_TEXT = 100
_MAX_OFFERS = 40
_FEW = 5
_NEXT = "new sessions load it"

Agree: TypeAlias = Callable[[PreparedPlugin], Awaitable[bool]]
"""Shows what a plugin adds, and returns whether the user wants it."""


class PluginReply(Struct, frozen=True, kw_only=True):
    """What an action did."""

    lines: tuple[str, ...]
    """For people, sanitized."""
    data: dict[str, Any] = field(default_factory=dict)
    """The same as facts, for JSON."""
    success: bool = True


def format_preparation(prepared: PreparedPlugin) -> list[str]:
    """Return what a plugin adds, or an update changes, as lines for people."""
    before, change = prepared.before, prepared.change
    if before is None or change is None:
        return [
            f"{prepared.id} {prepared.version} adds:".replace("  ", " "),
            *format_summary(prepared.summary),
            f"  from {sanitize_line(prepared.source, 300)}",
        ]
    old = sanitize_line(before.version, 40) or before.commit[:12]
    versions = f" from {old} to {prepared.version}" if old != prepared.version else ""
    return [f"{prepared.id} changes{versions}:", *format_change(change)]


async def install(
    plugins: Plugins, text: str, *, agree: Agree, scope: Scope = "user"
) -> PluginReply:
    """Install a plugin, if the user agrees."""
    async with plugins.prepare_install(text, scope=scope) as prepared:
        if prepared.is_current and prepared.before is not None:
            state = "" if prepared.before.enabled else f"; enable it: clew plugin enable {text}"
            return PluginReply(
                lines=(f"{prepared.id} is installed already, in its newest version{state}",),
                data={"plugin": msgspec.to_builtins(prepared.before)},
            )
        if not await agree(prepared):
            return _decline(prepared)
        installed = await prepared.accept()
    where = "in this folder" if scope == "project" else "in all folders"
    row = next(one for one in plugins.installed.list() if one.plugin.place == installed.place)
    why = row.problem or row.why or "disabled"
    state = f"{_NEXT} {where}" if row.active else f"it is not loaded here: {why}"
    return PluginReply(
        lines=(f"installed {installed.id} {installed.version}".rstrip() + f"; {state}",),
        data={
            "plugin": msgspec.to_builtins(installed),
            "adds": msgspec.to_builtins(prepared.summary),
        },
    )


async def update(plugins: Plugins, names: Sequence[str], *, agree: Agree) -> PluginReply:
    """Update plugins; without names, all that apply in this folder."""
    chosen = [await to_thread.run_sync(plugins.installed.get, name) for name in names]
    if not names:
        chosen = [row.plugin for row in await to_thread.run_sync(plugins.installed.list)]
    lines: list[str] = []
    done: list[object] = []
    failed = False
    markets = {one.marketplace for one in chosen if one.marketplace}
    for market in sorted(markets):
        try:
            await plugins.marketplaces.update(market)
        except ConfigError as error:
            lines.append(f"the marketplace {market} was not updated: {error}")
            failed = True
    for plugin in chosen:
        try:
            reply = await _update_one(plugins, plugin, agree)
        except ConfigError as error:
            reply = PluginReply(lines=(f"{plugin.id} was not updated: {error}",), success=False)
        lines += reply.lines
        done += reply.data.values()
        failed = failed or not reply.success
    if not chosen:
        lines.append("no plugin is installed; install one with: clew plugin install NAME")
    return PluginReply(lines=tuple(lines), data={"updated": done}, success=not failed)


async def _update_one(plugins: Plugins, plugin: InstalledPlugin, agree: Agree) -> PluginReply:
    async with plugins.prepare_update(plugin) as prepared:
        if prepared.is_current:
            return PluginReply(lines=(f"{plugin.id} is up to date",))
        if prepared.must_ask and not await agree(prepared):
            return _decline(prepared)
        lines = [] if prepared.must_ask else format_preparation(prepared)
        installed = await prepared.accept()
    version = sanitize_line(installed.version, 40) or installed.commit[:12]
    to = f" to {version}" if version else ""
    now = f"; it is called {installed.id} now" if plugin.id != installed.id else ""
    return PluginReply(
        lines=(*lines, f"updated {plugin.id}{to}{now}; {_NEXT}"),
        data={"plugin": msgspec.to_builtins(installed)},
    )


def _decline(prepared: PreparedPlugin) -> PluginReply:
    what = "was not installed" if prepared.before is None else "stays as it is"
    return PluginReply(lines=(f"{prepared.id} {what}",), success=False)


def remove(plugins: Plugins, name: str, *, scope: Scope | None = None) -> PluginReply:
    """Remove a plugin."""
    plugin = plugins.installed.get(name, scope=scope)
    data = plugins.installed.remove(plugin)
    lines = [f"removed {plugin.id}; sessions that are open keep it until they end"]
    lines += [f"its own data stays in {data}"] if data is not None else []
    return PluginReply(
        lines=tuple(lines),
        data={"plugin": msgspec.to_builtins(plugin)},
    )


def switch(
    plugins: Plugins, name: str, *, enabled: bool, scope: Scope | None = None
) -> PluginReply:
    """Enable or disable a plugin."""
    row = plugins.installed.set_enabled(plugins.installed.get(name, scope=scope), enabled=enabled)
    lines = [f"{'enabled' if enabled else 'disabled'} {row.plugin.id} for new sessions"]
    if row.active is not enabled and row.why:
        lines.append(f"in this folder it stays {'on' if row.active else 'off'}: {row.why}")
    if row.problem:
        lines.append(row.problem)
    return PluginReply(lines=tuple(lines), data={"plugin": msgspec.to_builtins(row)})


def list_plugins(plugins: Plugins) -> PluginReply:
    """List the installed plugins, and those that settings want."""
    rows, missing = plugins.installed.list(), plugins.installed.list_missing()
    lines = [line for row in rows for line in _format_row(row)]
    lines += (
        f"{name}  not installed, but {file} enables it: clew plugin install {name}"
        for name, file in missing.items()
    )
    if not lines:
        lines = ["no plugin is installed; find one with: clew plugin marketplace search WORD"]
    return PluginReply(
        lines=tuple(lines), data={"plugins": msgspec.to_builtins(rows), "missing": missing}
    )


def _format_row(row: PluginRow) -> list[str]:
    plugin = row.plugin
    state = "enabled" if plugin.enabled else "disabled"
    tokens = f"about {pluralize(row.prompt_tokens, 'token')}" if row.prompt_tokens else ""
    facts = [plugin.version or plugin.commit[:12], plugin.scope, row.why or state, tokens]
    lines = [f"{plugin.id}  {', '.join(filter(None, facts))}"]
    return [*lines, f"  {row.problem}"] if row.problem else lines


def show(plugins: Plugins, name: str) -> PluginReply:
    """Show what an installed plugin adds."""
    plugin = plugins.installed.get(name)
    summary = plugins.installed.summarize(plugin)
    row = next(one for one in plugins.installed.list() if one.plugin.place == plugin.place)
    lines = [*_format_row(row), *format_summary(summary)]
    lines.append(f"  from {sanitize_line(describe_source(plugin.source), 300)}")
    if plugin.commit:
        lines.append(f"  commit {plugin.commit}")
    lines.append(f"  sha256 {plugin.content}")
    return PluginReply(
        lines=tuple(lines),
        data={"plugin": msgspec.to_builtins(row), "adds": msgspec.to_builtins(summary)},
    )


def validate(path: Path) -> PluginReply:
    """Check a plugin or a marketplace in a folder, for its author."""
    replies = [_report_validated(one) for one in read_validated(path)]
    data = {key: value for one in replies for key, value in one.data.items()}
    problems = [problem for one in replies for problem in one.data["problems"]]
    return PluginReply(
        lines=tuple(line for one in replies for line in one.lines),
        data={**data, "problems": problems},
        success=not problems,
    )


def _report_validated(found: Validated) -> PluginReply:
    if isinstance(found, Marketplace):
        problems = [*found.problems]
        problems += (f"{one.name}: {one.problem}" for one in found.plugins if one.problem)
        lines = [f"the marketplace {found.name} lists {pluralize(len(found.plugins), 'plugin')}"]
        lines += (f"  {sanitize_line(one, 300)}" for one in problems)
        return PluginReply(
            lines=tuple(lines), data={"marketplace": found.name, "problems": problems}
        )
    head = f"{found.name} {found.version}".rstrip() + " is a plugin; it adds:"
    return PluginReply(
        lines=(head, *format_summary(found)),
        data={"adds": msgspec.to_builtins(found), "problems": list(found.warnings)},
    )


async def add_marketplace(plugins: Plugins, text: str) -> PluginReply:
    """Add a marketplace."""
    found = await plugins.add_marketplace(text)
    return _report_marketplace(found, "added")


async def update_marketplaces(plugins: Plugins, names: Sequence[str]) -> PluginReply:
    """Fetch the lists of marketplaces again; without names, of all."""
    chosen = names or [one.name for one in plugins.marketplaces.list_known()]
    lines: list[str] = []
    done: list[object] = []
    for name in chosen:
        try:
            reply = _report_marketplace(await plugins.marketplaces.update(name), "updated")
        except ConfigError as error:
            lines.append(
                f"the marketplace {name} was not updated: {error}; if it is gone:"
                f" clew plugin marketplace remove {name}"
            )
            continue
        lines += reply.lines
        done.append(reply.data["marketplace"])
    return PluginReply(
        lines=tuple(lines) or (_NO_MARKETPLACE,),
        data={"marketplaces": done},
        success=len(done) == len(chosen),
    )


def _report_marketplace(found: ReadMarketplace, verb: str) -> PluginReply:
    name, count = found.known.name, len(found.marketplace.plugins)
    example = found.marketplace.plugins[0].name if count else "NAME"
    lines = [f"{verb} the marketplace {name} with {pluralize(count, 'plugin')}"]
    if verb == "added" and count > _FEW:
        lines.append("find one with: clew plugin marketplace search WORD")
    elif verb == "added":
        lines.append(f"install one with: clew plugin install {example}@{name}")
    lines += (f"  not listed: {one}" for one in found.marketplace.problems)
    return PluginReply(
        lines=tuple(lines),
        data={"marketplace": {**msgspec.to_builtins(found.known), "plugins": count}},
    )


def remove_marketplace(plugins: Plugins, name: str) -> PluginReply:
    """Remove a marketplace; its plugins stay installed."""
    known = plugins.marketplaces.remove(name)
    return PluginReply(
        lines=(f"removed the marketplace {name}; its plugins stay installed",),
        data={"marketplace": msgspec.to_builtins(known)},
    )


_NO_MARKETPLACE = "no marketplace is known; add one with: clew plugin marketplace add SOURCE"


def list_marketplaces(plugins: Plugins) -> PluginReply:
    """List the marketplaces, and those that settings name."""
    known = plugins.marketplaces.list_known()
    named = plugins.list_settings_marketplaces()
    lines = [f"{one.name}  {sanitize_line(describe_source(one.source), 200)}" for one in known]
    lines += (
        f"{name}  {sanitize_line(source, 200)}  (in your settings; added when you install from it)"
        for name, source in named.items()
    )
    return PluginReply(
        lines=tuple(lines) or (_NO_MARKETPLACE,),
        data={"marketplaces": msgspec.to_builtins(known), "settings": named},
    )


def search(plugins: Plugins, words: Sequence[str]) -> PluginReply:
    """Search the plugins of all marketplaces."""
    if not plugins.marketplaces.list_known():
        return PluginReply(lines=(_NO_MARKETPLACE,), data={"plugins": []}, success=False)
    found, problems = plugins.marketplaces.search(list(words)), plugins.marketplaces.read_all()[1]
    lines = [_format_offer(one) for one in found[:_MAX_OFFERS]]
    if len(found) > _MAX_OFFERS:
        lines.append(f"… and {len(found) - _MAX_OFFERS:,} more; add a word")
    if not found:
        lines = ["no plugin has all of these words; try fewer"]
    lines += problems
    facts = [
        {
            "id": one.id,
            "description": one.plugin.description,
            "version": one.plugin.version,
            "category": one.plugin.category,
            "problem": one.plugin.problem,
        }
        for one in found
    ]
    return PluginReply(
        lines=tuple(lines), data={"plugins": facts, "problems": problems}, success=bool(found)
    )


def _format_offer(offer: Offer) -> str:
    plugin = offer.plugin
    text = f"cannot be installed: it {plugin.problem}" if plugin.problem else plugin.description
    return f"{offer.id}  {sanitize_line(text, _MAX_TEXT)}".rstrip()

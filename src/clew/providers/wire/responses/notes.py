"""What a provider's own tools did, in words that people and other models can read."""

from typing import Any

from clew.providers.wire.responses.fields import Fields, inner, inners, words

LONGEST = 200
"""Characters of what was asked, and of what was answered, that a note keeps."""

_CLIENT_RUNS = frozenset({"function_call", "computer_call", "local_shell_call", "apply_patch_call"})
# xAI reports the steps of its own search as calls of custom tools.
_XAI_RUNS = frozenset({"x_keyword_search", "x_semantic_search", "x_thread_fetch", "x_user_search"})


def is_server_tool(item: Fields) -> bool:
    """Say whether `item` is a tool that the provider runs itself."""
    kind = words(item.get("type"))
    if kind == "shell_call":
        return words(inner(item.get("environment")).get("type")).startswith("container")
    if kind == "custom_tool_call":
        return words(item.get("name")) in _XAI_RUNS
    called = kind.endswith("_call") and kind not in _CLIENT_RUNS
    return (called and item.get("execution") != "client") or kind == "mcp_list_tools"


def tool_name(item: Fields) -> str:
    """Return the name of the tool, such as `web_search`."""
    kind = words(item.get("type"))
    if kind in {"mcp_call", "mcp_list_tools"}:
        return f"{words(item.get('server_label'))}.{words(item.get('name')) or 'list_tools'}"
    return words(item.get("name")) or kind.removesuffix("_call")


def asked(item: Fields) -> str:
    """Return what the tool was asked, as far as it is known."""
    action = inner(item.get("action"))
    return (
        words(action.get("query"))
        or _joined(action.get("queries"))
        or _joined(action.get("commands"), "\n")
        or words(action.get("url"))
        or _joined(item.get("queries"))
        or words(
            item.get("code")
            or item.get("arguments")
            or item.get("revised_prompt")
            or item.get("prompt")
            or item.get("input")
        )
    )


def answered(item: Fields) -> str:
    """Return what the tool answered, as far as people can read it."""
    if said := item.get("error") or item.get("output"):
        return words(said)
    logs = [each.get("logs") for each in inners(item.get("outputs"))]
    files = [each.get("filename") for each in inners(item.get("results"))]
    tools = [each.get("name") for each in inners(item.get("tools"))]
    urls = [each.get("url") for each in inners(inner(item.get("action")).get("sources"))]
    return _joined(logs, "\n") or _joined([*files, *tools, *urls])


def has_failed(item: Fields) -> bool:
    """Say whether the tool could not do its work."""
    return item.get("status") == "failed" or bool(item.get("error"))


def note(item: Fields) -> str:
    """Return one line that stands for the item where it cannot be sent itself."""
    if not is_server_tool(item) or item.get("type") == "mcp_list_tools":
        return ""
    told = " → ".join(filter(None, (_line(asked(item)), _line(answered(item)))))
    return f"[{tool_name(item)}: {told}]" if told else f"[{tool_name(item)}]"


def _joined(values: Any, between: str = ", ") -> str:
    return between.join(words(each) for each in values if each) if isinstance(values, list) else ""


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[:LONGEST] + "…"

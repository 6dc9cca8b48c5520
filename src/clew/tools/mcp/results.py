"""Converts what a server returns into outputs of tools and texts of prompts."""

import base64
import binascii
from collections.abc import Iterable

import mcp_types
import msgspec

from clew.core.messages import Image
from clew.core.sanitize import sanitize_line
from clew.tools.protocol import ToolOutput

MAX_TEXT = 2_000_000
"""Characters that are kept of one result; the session truncates what the model gets further."""
_MAX_IMAGES = 20
_MAX_IMAGE_BYTES = 5_000_000
_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_EMPTY = "[the tool returned nothing]"


class _Collector:
    """Gathers the texts and the images of a result."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.images: list[Image] = []
        self._length = 0

    def add_text(self, text: str) -> None:
        left = MAX_TEXT - self._length
        if left <= 0:
            return
        self._length += len(text)
        kept = text if len(text) <= left else f"{text[:left]}\n[… the rest is too long]"
        self.texts.append(kept)

    def add_data(self, kind: str, data: str, mime_type: str) -> None:
        """Add an image that models accept; other data is only named."""
        size = len(data) * 3 // 4
        accepted = mime_type in _IMAGE_TYPES and size <= _MAX_IMAGE_BYTES
        if accepted and len(self.images) < _MAX_IMAGES:
            try:
                content = base64.b64decode(data, validate=True)
            except (binascii.Error, ValueError):
                self.add_text(f"[{kind} that is damaged]")
                return
            self.images.append(Image(media_type=mime_type, data=content))
            self.add_text(f"[{kind}: {mime_type}, {len(content):,} bytes]")
            return
        self.add_text(
            f"[{kind} that cannot be shown: {sanitize_line(mime_type, 60)}, {size:,} bytes]"
        )


def convert_result(result: mcp_types.CallToolResult) -> ToolOutput:
    """Return the output of a call: texts, images, and structured data if there is no text."""
    found = _Collector()
    for block in result.content:
        _add_block(found, block)
    structured = result.structured_content
    data: dict[str, object] = {}
    if structured is not None:
        encoded = msgspec.json.encode(structured).decode()
        if not any(text.strip() for text in found.texts):
            found.add_text(encoded)
        if len(encoded) <= MAX_TEXT:
            data["structured"] = structured
    text = "\n".join(found.texts) or _EMPTY
    return ToolOutput(text=text, failed=result.is_error, images=tuple(found.images), data=data)


def convert_resource(result: mcp_types.ReadResourceResult) -> ToolOutput:
    """Return the contents of a resource."""
    found = _Collector()
    for content in result.contents:
        _add_contents(found, content)
    text = "\n".join(found.texts) or "[the resource is empty]"
    return ToolOutput(text=text, images=tuple(found.images))


def convert_prompt(result: mcp_types.GetPromptResult) -> str:
    """Return the messages of a prompt as one text; answers in it are marked."""
    parts: list[str] = []
    for message in result.messages:
        found = _Collector()
        _add_block(found, message.content)
        text = "\n".join(found.texts)
        parts.append(text if message.role == "user" else f"[assistant]\n{text}")
    return "\n\n".join(parts)[:MAX_TEXT]


def join_texts(blocks: Iterable[object]) -> str:
    """Return the texts among blocks of content."""
    return "\n".join(one.text for one in blocks if isinstance(one, mcp_types.TextContent))


def _add_block(found: _Collector, block: mcp_types.ContentBlock) -> None:
    match block:
        case mcp_types.TextContent(text=text):
            found.add_text(text)
        case mcp_types.ImageContent(data=data, mime_type=kind):
            found.add_data("image", data, kind)
        case mcp_types.AudioContent(data=data, mime_type=kind):
            found.add_data("audio", data, kind)
        case mcp_types.ResourceLink(uri=uri):
            name = sanitize_line(block.title or block.name, 200)
            found.add_text(f"[resource {name}: {sanitize_line(uri, 500)}]")
        case mcp_types.EmbeddedResource(resource=contents):
            _add_contents(found, contents)


def _add_contents(
    found: _Collector, contents: mcp_types.TextResourceContents | mcp_types.BlobResourceContents
) -> None:
    match contents:
        case mcp_types.TextResourceContents(text=text):
            found.add_text(text)
        case mcp_types.BlobResourceContents(blob=blob):
            found.add_data("resource", blob, contents.mime_type or "application/octet-stream")

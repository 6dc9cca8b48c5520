"""Images, documents, video and audio in the format of Converse."""

import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from typing import Any

import msgspec
from msgspec.structs import replace

from clew.core.messages import File, Image
from clew.providers.wire.message_cache import merge_extra

KINDS = ("image", "document", "video", "audio")
NAMELESS = "Document"
LONGEST_NAME = 190
"""Of the 200 characters of a name; the rest makes duplicates unique."""

_OFFICE = "application/vnd.openxmlformats-officedocument"
_FORMATS: dict[str, dict[str, str]] = {
    "image": {
        "image/png": "png",
        "image/jpeg": "jpeg",
        "image/gif": "gif",
        "image/webp": "webp",
        "image/jpg": "jpeg",
    },
    "document": {
        "application/pdf": "pdf",
        "text/csv": "csv",
        "application/msword": "doc",
        f"{_OFFICE}.wordprocessingml.document": "docx",
        "application/vnd.ms-excel": "xls",
        f"{_OFFICE}.spreadsheetml.sheet": "xlsx",
        "text/html": "html",
        "text/plain": "txt",
        "text/markdown": "md",
        "application/json": "txt",
        "application/xml": "txt",
        "application/yaml": "txt",
    },
    "video": {
        "video/mp4": "mp4",
        "video/webm": "webm",
        "video/quicktime": "mov",
        "video/x-matroska": "mkv",
        "video/x-flv": "flv",
        "video/mpeg": "mpeg",
        "video/x-ms-wmv": "wmv",
        "video/3gpp": "three_gp",
    },
    "audio": {
        "audio/mpeg": "mp3",
        "audio/wav": "wav",
        "audio/flac": "flac",
        "audio/ogg": "ogg",
        "audio/opus": "opus",
        "audio/aac": "aac",
        "audio/mp4": "m4a",
        "audio/webm": "webm",
        "audio/x-matroska": "mka",
        "audio/x-wav": "wav",
        "audio/mp3": "mp3",
    },
}
_MEDIA_TYPES: dict[str, dict[str, str]] = {
    kind: {name: media for media, name in reversed(known.items())}
    for kind, known in _FORMATS.items()
}
"""The reverse mapping; the first media type of a format is its usual one."""


def media_block(part: Image | File) -> tuple[str, dict[str, Any]] | None:
    """Return the block type and fields for `part`, or None if Converse cannot take it."""
    kind = _kind(part.media_type)
    form = _FORMATS[kind].get(part.media_type)
    if form is None and part.media_type.startswith("text/"):
        form = "txt"
    source = _source(part)
    if form is None or source is None:
        return None
    fields: dict[str, Any] = {"format": form, "source": source}
    if kind == "document":
        fields["name"] = _name(part.name if isinstance(part, File) else "")
    return kind, merge_extra(fields, part.extra)


def media_note(part: Image | File) -> str:
    """Return the note that replaces unsupported media."""
    what = "picture" if _kind(part.media_type) == "image" else "file"
    named = part.url or (part.name if isinstance(part, File) else "")
    return f"[A {what} ({part.media_type}) that cannot be shown here{named and f': {named}'}.]"


def parse_media(kind: str, fields: dict[str, Any]) -> Image | File | None:
    """Return the part for a block, or None if no part encodes to the same block."""
    source = fields.get("source")
    media_type = _media_type(kind, fields.get("format"))
    if not media_type or not isinstance(source, dict):
        return None
    location = source.get("s3Location")
    url = str(location.get("uri", "")) if isinstance(location, dict) else ""
    part: Image | File
    if kind == "image":
        part = Image(media_type=media_type, data=_data(source), url=url)
    else:
        name = str(fields.get("name", ""))
        part = File(media_type=media_type, data=_data(source), url=url, name=name)
    made = media_block(part)
    if made is None or not made[1].keys() <= fields.keys():
        return None
    private = {name: value for name, value in fields.items() if made[1].get(name) != value}
    return replace(part, extra=msgspec.json.encode(private).decode()) if private else part


def _kind(media_type: str) -> str:
    kind = media_type.partition("/")[0]
    return kind if kind in {"image", "video", "audio"} else "document"


def _media_type(kind: str, form: object) -> str:
    # Some clients send the media type as the format, and Bedrock accepts it.
    text = str(form)
    return text if text in _FORMATS[kind] else _MEDIA_TYPES[kind].get(text, "")


def _source(part: Image | File) -> dict[str, Any] | None:
    if part.data:
        return {"bytes": b64encode(part.data).decode()}
    # Bedrock fetches only from S3.
    return {"s3Location": {"uri": part.url}} if part.url.startswith("s3://") else None


def _data(source: dict[str, Any]) -> bytes:
    text = source.get("text")
    if isinstance(text, str):
        return text.encode()
    try:
        return b64decode(str(source.get("bytes", "")), validate=True)
    except NotBase64:
        return b""


def _name(name: str) -> str:
    """Return `name` with only the characters that the API accepts in document names."""
    plain = re.sub(r"[^A-Za-z0-9\s()\[\]-]+", "-", name)
    return re.sub(r"\s+", " ", plain).strip(" -")[:LONGEST_NAME].rstrip() or NAMELESS

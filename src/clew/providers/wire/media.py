"""Images and files: data URLs, and text notes for models that cannot take them."""

from base64 import b64encode

from msgspec.structs import replace

from clew.core.messages import File, Image, Message, Part, Text, ToolResult


def data_url(part: Image | File) -> str:
    """Return the URL of an image or file, or a data URL with its bytes."""
    return part.url or f"data:{part.media_type};base64,{b64encode(part.data).decode()}"


def replace_media(message: Message) -> Message:
    """Return `message` with a note in place of every image and file.

    A message without any is returned unchanged, as the same object.
    """
    if not any(map(_shows, message.parts)):
        return message
    return replace(message, parts=tuple(map(_describe_media, message.parts)))


def media_note(part: Image | File) -> str:
    """Return the note for `part`."""
    kind, sense = ("picture", "see") if isinstance(part, Image) else ("file", "read")
    name = f" {part.name!r}" if isinstance(part, File) and part.name else ""
    return f"[A {kind}{name} ({part.media_type}) that this model cannot {sense}.]"


def _shows(part: Part) -> bool:
    return isinstance(part, Image | File) or (isinstance(part, ToolResult) and bool(part.images))


def _describe_media(part: Part) -> Part:
    match part:
        case Image() | File():
            return Text(media_note(part))
        case ToolResult(text=text, images=images) if images:
            lines = filter(None, (text, *map(media_note, images)))
            return replace(part, text="\n".join(lines), images=())
        case _:
            return part

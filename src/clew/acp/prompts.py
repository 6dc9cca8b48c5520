"""From the content blocks of an editor to a prompt. Pure: files are read by the session."""

import binascii
from base64 import b64decode
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from clew.acp.connection import INVALID_PARAMS, RpcError
from clew.acp.content import (
    AudioBlock,
    ContentBlock,
    EmbeddedResource,
    ImageBlock,
    ResourceContents,
    ResourceLink,
    TextBlock,
)
from clew.core.messages import Image
from clew.sdk.client import PromptInput

_MARKS = str.maketrans({"L": "", ":": "-"})


def make_prompt(blocks: tuple[ContentBlock, ...], cwd: str) -> PromptInput:
    """Return the prompt: links to files as `@path`, embedded texts after the user's words.

    Only what the user wrote and linked is searched for `@path`, never the content of a resource.

    Raises:
        RpcError: A block cannot be used: sound, bytes that are not an image, or wrong base64.
    """
    words = _Words()
    resources: list[str] = []
    images: list[Image] = []
    for block in blocks:
        match block:
            case TextBlock(text=text):
                words.add(text)
            case ResourceLink(name=name, uri=uri):
                words.refer(refer_to(uri, cwd) or f"{name} ({uri})")
            case ImageBlock(data=data, mime_type=kind):
                images.append(Image(media_type=kind, data=_decode(data)))
            case EmbeddedResource(resource=ResourceContents(text=str(text), uri=uri)):
                words.refer(_show_path(uri, cwd))
                resources.append(f'<resource uri="{uri}">\n{text}\n</resource>')
            case EmbeddedResource(resource=resource):
                images.append(_read_blob(resource))
            case AudioBlock():
                raise RpcError(INVALID_PARAMS, "sound cannot be part of a prompt")
    typed = words.text
    return PromptInput(
        text="\n\n".join([typed, *resources]),
        images=tuple(images),
        attach=typed or False,
        display_input=typed if resources and typed.strip() else None,
    )


class _Words:
    """The words of the user, with references that touch nothing beside them."""

    def __init__(self) -> None:
        self.text = ""
        self._is_reference = False

    def add(self, text: str) -> None:
        """Add what the user wrote."""
        touches = self._is_reference and text[:1].isalnum()
        self.text += f" {text}" if touches else text
        self._is_reference = False

    def refer(self, text: str) -> None:
        """Add a reference."""
        touches = self.text and not self.text[-1].isspace()
        self.text += f" {text}" if touches else text
        self._is_reference = True


def refer_to(uri: str, cwd: str) -> str:
    """Return a link to a file as `@path`, with its lines; empty for another address."""
    path = _find_path(uri, cwd)
    if not path:
        return ""
    # Editors write the lines of a selection as `#L10:20` or `#L10-L20`.
    lines = urlsplit(uri).fragment.translate(_MARKS)
    mark = f"#{lines}" if lines.replace("-", "", 1).isdigit() else ""
    if " " in path or not path.isprintable():
        return f'@"{path}"'
    return f"@{path}{mark}"


def _show_path(uri: str, cwd: str) -> str:
    return _find_path(uri, cwd) or uri


def _find_path(uri: str, cwd: str) -> str:
    """Return the path of a `file:` address, relative to `cwd` where possible; else empty."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    if parts.scheme != "file" or not parts.path.startswith("/"):
        return ""
    path = PurePosixPath(unquote(parts.path))
    return str(path.relative_to(cwd) if path.is_relative_to(cwd) else path)


def _read_blob(resource: ResourceContents) -> Image:
    kind = resource.mime_type or ""
    if resource.blob is None or not kind.startswith("image/"):
        raise RpcError(
            INVALID_PARAMS,
            f"{resource.uri} is neither text nor an image; link it, and the model reads the file",
        )
    return Image(media_type=kind, data=_decode(resource.blob))


def _decode(data: str) -> bytes:
    try:
        return b64decode(data, validate=True)
    except binascii.Error as error:
        raise RpcError(INVALID_PARAMS, f"an image is not in base64: {error}") from error

"""How many tokens a picture is likely to be, from the size in the first bytes of its file.

Other files are judged by their length alone.
"""

from clew.core.messages import File, Image

_PIXELS_PER_UNIT = 750
_LEAST, _MOST, _UNKNOWN = 85, 1_600, 1_200
_BYTES_PER_UNIT = {"application/pdf": 20, "audio/": 500, "video/": 800}
_STARTS_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def image_units(image: Image) -> int:
    """Estimate a picture by its area; one whose size cannot be read counts as a large one."""
    size = pixel_size(image.data)
    if size is None:
        return _UNKNOWN
    return min(max(size[0] * size[1] // _PIXELS_PER_UNIT, _LEAST), _MOST)


def file_units(file: File) -> int:
    """Estimate a document, a recording or a film; only an address counts as a small one."""
    per_unit = next(
        (rate for kind, rate in _BYTES_PER_UNIT.items() if file.media_type.startswith(kind)), 4
    )
    return max(_LEAST, len(file.data) // per_unit)


def pixel_size(data: bytes) -> tuple[int, int] | None:
    """Return width and height as a PNG, GIF, WebP or JPEG file states them, else None."""
    size: tuple[int, int] | None = None
    if data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) >= 24:
        size = _big(data[16:20]), _big(data[20:24])
    elif data.startswith((b"GIF87a", b"GIF89a")) and len(data) >= 10:
        size = _little(data[6:8]), _little(data[8:10])
    elif data.startswith(b"RIFF") and data[8:12] == b"WEBP" and len(data) >= 30:
        size = _webp_size(data)
    elif data.startswith(b"\xff\xd8"):
        size = _jpeg_size(data)
    return size if size and all(size) else None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8 ":
            return _little(data[26:28]) & 0x3FFF, _little(data[28:30]) & 0x3FFF
        case b"VP8L":
            bits = _little(data[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return _little(data[24:27]) + 1, _little(data[27:30]) + 1
    return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    place = 2
    while place + 9 <= len(data) and data[place] == 0xFF:
        if data[place + 1] in _STARTS_OF_FRAME:
            return _big(data[place + 7 : place + 9]), _big(data[place + 5 : place + 7])
        place += 2 + _big(data[place + 2 : place + 4])
    return None


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")

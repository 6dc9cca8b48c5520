"""Token calibrations and learned windows of models, kept for later sessions in a small JSON file.

Losing the file costs a few calls of learning, so a damaged file is logged and replaced, and is
never an error.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.context.calibration import make_prior
from clew.core.json_text import JsonDecoder
from clew.core.models import Calibration
from clew.files.atomic import make_private_folder, replace_file

_logger = logging.getLogger(__name__)
_T = TypeVar("_T")

MOST_MODELS = 200
WINDOW_LIFETIME = 30 * 86_400.0
"""Seconds after which a learned window is forgotten: an account's limit may have been raised."""
_MOST_WEIGHT = 20_000.0
"""In units. More would make a session slow to notice that a model counts differently now."""


class Learned(Struct, frozen=True, kw_only=True):
    """The part of a calibration that is kept; the overhead belongs to one session's setup."""

    rate: float
    weight: float


class LearnedWindow(Struct, frozen=True, kw_only=True):
    """The tokens that a provider accepts, as it said when it refused a request."""

    tokens: int
    at: float
    """Seconds since the epoch."""


class _Content(Struct, frozen=True, kw_only=True, omit_defaults=True):
    models: dict[str, Learned] = {}
    """The last saved model comes last, and the last saved window too."""
    windows: dict[str, LearnedWindow] = {}
    """By model and endpoint."""


_decoder = JsonDecoder(_Content)


class CalibrationFile:
    """Reads and writes the file at `path`; all methods block, and none raises `OSError`.

    Several processes may write at once: each write is atomic and includes the previous content.
    Of two writes at the same moment one may be lost.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self, model: str) -> Calibration | None:
        """Return the calibration to start with for `model`, or None if there is none."""
        learned = self._read().models.get(model)
        return None if learned is None else make_prior(learned.rate, learned.weight)

    def save(self, model: str, calibration: Calibration) -> bool:
        """Merge what a session learned about `model`; return whether it could be written."""
        content = self._read()
        learned = _merge(content.models.get(model), calibration)
        return self._write(replace(content, models=_append(content.models, model, learned)))

    def load_window(self, key: str, now: float) -> int | None:
        """Return the window that was learned for a model at an endpoint, or None."""
        learned = self._read().windows.get(key)
        return learned.tokens if learned and now - learned.at < WINDOW_LIFETIME else None

    def save_window(self, key: str, tokens: int, now: float) -> bool:
        """Keep a window that a refusal taught; return whether it could be written."""
        content = self._read()
        learned = LearnedWindow(tokens=tokens, at=now)
        return self._write(replace(content, windows=_append(content.windows, key, learned)))

    def _read(self) -> _Content:
        try:
            return _decoder.decode(self._path.read_bytes())
        except FileNotFoundError:
            return _Content()
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            _logger.warning("%s cannot be read and is ignored: %s", self._path, error)
            return _Content()

    def _write(self, content: _Content) -> bool:
        try:
            make_private_folder(self._path.parent)
            data = msgspec.json.format(msgspec.json.encode(content))
            replace_file(self._path, data, mode=0o600, durable=False)
        except OSError as error:
            _logger.warning("%s could not be saved: %s", self._path, error)
            return False
        return True


def _append(known: Mapping[str, _T], key: str, value: _T) -> dict[str, _T]:
    """Return `known` with `value` at its end, without its oldest items if there are too many."""
    others = [(name, each) for name, each in known.items() if name != key]
    return dict([*others, (key, value)][-MOST_MODELS:])


def _merge(before: Learned | None, calibration: Calibration) -> Learned:
    weight = min(calibration.weight, _MOST_WEIGHT)
    if before is None:
        return Learned(rate=calibration.slope, weight=weight)
    total = weight + before.weight
    rate = (calibration.slope * weight + before.rate * before.weight) / max(1.0, total)
    return Learned(rate=rate, weight=min(total, _MOST_WEIGHT))

"""Token calibrations of models, kept for later sessions in a small JSON file.

Losing the file costs a few calls of learning, so a damaged file is logged and replaced, and is
never an error.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from clew.context.calibration import make_prior
from clew.core.models import Calibration
from clew.files.atomic import make_private_folder, replace_file

_logger = logging.getLogger(__name__)

MOST_MODELS = 200
_MOST_WEIGHT = 20_000.0
"""In units. More would make a session slow to notice that a model counts differently now."""


class Learned(Struct, frozen=True, kw_only=True):
    """The part of a calibration that is kept; the overhead belongs to one session's setup."""

    rate: float
    weight: float


class _Content(Struct, frozen=True, kw_only=True):
    models: dict[str, Learned] = {}
    """The last saved model comes last."""


_decoder = msgspec.json.Decoder(_Content)


class CalibrationFile:
    """Reads and writes the file at `path`; all methods block, and none raises `OSError`.

    Several processes may write at once: each write is atomic and includes the previous content.
    Of two writes at the same moment one may be lost.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self, model: str) -> Calibration | None:
        """Return the calibration to start with for `model`, or None if there is none."""
        learned = self._read().get(model)
        return None if learned is None else make_prior(learned.rate, learned.weight)

    def save(self, model: str, calibration: Calibration) -> bool:
        """Merge what a session learned about `model`; return whether it could be written."""
        models = self._read()
        models[model] = _merge(models.pop(model, None), calibration)
        newest = dict(list(models.items())[-MOST_MODELS:])
        try:
            self._write(newest)
        except OSError as error:
            _logger.warning("the calibration of %s could not be saved: %s", model, error)
            return False
        return True

    def _read(self) -> dict[str, Learned]:
        try:
            return dict(_decoder.decode(self._path.read_bytes()).models)
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            _logger.warning("%s cannot be read and is ignored: %s", self._path, error)
            return {}

    def _write(self, models: Mapping[str, Learned]) -> None:
        make_private_folder(self._path.parent)
        data = msgspec.json.format(msgspec.json.encode(_Content(models=dict(models))))
        replace_file(self._path, data, mode=0o600, durable=False)


def _merge(before: Learned | None, calibration: Calibration) -> Learned:
    weight = min(calibration.weight, _MOST_WEIGHT)
    if before is None:
        return Learned(rate=calibration.slope, weight=weight)
    total = weight + before.weight
    rate = (calibration.slope * weight + before.rate * before.weight) / max(1.0, total)
    return Learned(rate=rate, weight=min(total, _MOST_WEIGHT))

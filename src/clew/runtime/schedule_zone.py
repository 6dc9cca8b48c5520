"""The time zone of a schedule: it belongs to the schedule, not to the worker that runs it."""

import logging
import os
from collections.abc import Mapping
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from clew.core.errors import ConfigError
from clew.runtime.cron import describe_moment, next_time
from clew.stores.task_protocol import ScheduleRow

logger = logging.getLogger(__name__)

ZONE_FIELD = "zone"
"""Where the name of the time zone is in the spec of a schedule."""
_LOCALTIME, _ZONE_NAME = Path("/etc/localtime"), Path("/etc/timezone")
_ZONES = "/zoneinfo/"


def find_next_run(row: ScheduleRow, after: float) -> float:
    """Return when a schedule is due after that time; workers move it there."""
    try:
        zone = open_zone(row.spec.get(ZONE_FIELD, ""))
    except ConfigError as error:
        logger.warning("schedule %s runs in UTC: %s", row.schedule_id, error)
        zone = UTC
    return next_time(row.cron, after, zone)


def describe_next(row: ScheduleRow) -> str:
    """Return when a schedule runs next, in its time zone."""
    return describe_moment(row.next_at, open_zone(row.spec.get(ZONE_FIELD, "")))


def open_zone(name: str) -> tzinfo:
    """Return a time zone by its name; UTC for none.

    Raises:
        ConfigError: This machine does not know it.
    """
    if not name or name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise ConfigError(
            f"the time zone {name!r} is not known here; use a name such as Europe/Berlin"
        ) from error


def find_local_zone(environ: Mapping[str, str]) -> str:
    """Return the name of this machine's time zone; UTC if it cannot be found."""
    names = [environ.get("TZ", "").removeprefix(":")]
    try:
        names.append(os.path.realpath(_LOCALTIME).partition(_ZONES)[2])
        names.append(_ZONE_NAME.read_text(encoding="ascii").strip())
    except (OSError, UnicodeDecodeError):
        pass
    for name in filter(None, names):
        try:
            open_zone(name)
        except ConfigError:
            continue
        return name
    return "UTC"

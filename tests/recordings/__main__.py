"""Print how the wire formats fare on the recordings."""

import sys

from tests.recordings.records import DATA, PRESENT
from tests.recordings.survey import KINDS, Survey, survey


def main() -> int:
    """Run every check; returns 1 when there is nothing to run them on."""
    if not PRESENT:
        sys.stderr.write(f"there are no recordings in {DATA}\n")
        return 1
    sys.stdout.write("\n".join(lines(survey())) + "\n")
    return 0


def lines(found: Survey) -> list[str]:
    """Return the table, the misses with their reasons, and what was not tried."""
    table = [f"{'passed / total':<28}" + "".join(f"{kind:>14}" for kind in KINDS)]
    for api, scores in sorted(found.scores.items()):
        cells = [str(scores[kind]) if kind in scores else "" for kind in KINDS]
        table.append(f"{api:<28}" + "".join(f"{cell:>14}" for cell in cells))
    misses = [
        f"  {count:>4}  {api}, {kind}: {reason}"
        for (api, kind, reason), count in sorted(found.misses.items())
    ]
    unspoken = [f"  {count:>4}  {what}" for what, count in sorted(found.unspoken.items())]
    return [*table, "", "misses", *misses, "", "not spoken by Clew", *unspoken]


if __name__ == "__main__":
    sys.exit(main())

"""The table of a task's life."""

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import BackgroundTaskError
from clew.core.tasks import TaskErrorCategory, TaskStatus
from clew.runtime.states import TRANSITIONS, TaskChange, transition

pytestmark = pytest.mark.req("BGT-1")


def play(changes: list[TaskChange]) -> list[TaskStatus]:
    """Return the statuses of a task to which these changes happen; impossible ones do nothing."""
    statuses = [TaskStatus.QUEUED]
    for change in changes:
        with suppress(BackgroundTaskError):
            statuses.append(transition(statuses[-1], change))
    return statuses


@given(st.lists(st.sampled_from(TaskChange), max_size=30))
def test_a_task_ends_once_and_works_only_after_its_start(changes: list[TaskChange]) -> None:
    statuses = play(changes)

    assert not any(status.is_terminal for status in statuses[:-1])
    assert TaskStatus.QUEUED not in statuses[1:]
    assert all(before is not after for before, after in pairwise(statuses))
    if TaskStatus.COMPLETED in statuses:
        assert statuses[-2] is TaskStatus.RUNNING
    if TaskStatus.WAITING_PERMISSION in statuses:
        assert statuses[1] is TaskStatus.RUNNING


@given(st.sampled_from(TaskStatus), st.sampled_from(TaskChange))
def test_a_change_is_in_the_table_or_an_error(status: TaskStatus, change: TaskChange) -> None:
    if (status, change) in TRANSITIONS:
        assert transition(status, change) is TRANSITIONS[status, change]
    else:
        with pytest.raises(BackgroundTaskError, match=f"is {status} cannot {change}") as caught:
            transition(status, change)
        assert caught.value.category is TaskErrorCategory.VALIDATION


def test_every_status_can_be_reached_and_left_towards_an_end() -> None:
    def reachable(start: TaskStatus) -> set[TaskStatus]:
        found = {start}
        while (
            more := {after for (before, _), after in TRANSITIONS.items() if before in found} - found
        ):
            found |= more
        return found

    assert reachable(TaskStatus.QUEUED) == set(TaskStatus)
    for status in TaskStatus:
        ends = {one for one in reachable(status) if one.is_terminal}
        assert ends == (
            {status} if status.is_terminal else {s for s in TaskStatus if s.is_terminal}
        )


def test_a_task_that_has_not_ended_can_always_be_cancelled_or_fail() -> None:
    for status in TaskStatus:
        can = {change for before, change in TRANSITIONS if before is status}
        assert ({TaskChange.CANCEL, TaskChange.FAIL} <= can) is not status.is_terminal

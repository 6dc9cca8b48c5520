"""`SessionState`: what the parts of one session share, passed along instead of globals."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from clew.context.compaction_pace import CompactionPace
from clew.context.plan import Strategy
from clew.context.policy import ContextPolicy
from clew.context.reasoning import ReasoningPolicy
from clew.context.summary_breaker import SummaryBreaker
from clew.context.window_state import compute_state, count_tokens
from clew.core.context_state import ContextState
from clew.core.errors import BudgetReached, SessionClosed, SessionError
from clew.core.events import ContextUpdated, Event, TodosChanged
from clew.core.models import ModelFacts, ToolSpec
from clew.core.permissions import Decision
from clew.core.todos import TodoItem
from clew.core.usage import Usage
from clew.providers.protocol import Provider
from clew.session.call_records import CallRecords
from clew.session.config import SessionOptions
from clew.session.gate import Gate
from clew.session.journal import Journal
from clew.session.limits import (
    CostLimit,
    LoopGuard,
    SharedBudget,
    expect_usage,
    make_cost_limit,
)
from clew.tools.protocol import Progress, Tool, ToolContext

if TYPE_CHECKING:
    from clew.checkpoints.file_checkpoints import FileCheckpoints
    from clew.session.summary_notes import Preparation


class ThresholdShares(TypedDict, total=False):
    """Shares of the window; see `clew.context.policy.Thresholds`."""

    warn: float
    compact: float | Literal[False]
    block: float


class CompactionRequest(Struct, frozen=True, kw_only=True):
    """A compaction that the model or the user asked for while a run was in progress."""

    instructions: str = ""
    force: bool = False


class SessionState(Struct, kw_only=True):
    """The options of a session and everything that changes while it lives.

    It exists before the session is open; until then the journal is empty and cannot be written.
    """

    options: SessionOptions
    """As given, with defaults; never changed."""
    journal: Journal
    provider: Provider
    gate: Gate
    policy: ContextPolicy
    strategy: Strategy
    reasoning: ReasoningPolicy
    tools: Mapping[str, Tool]
    all_specs: tuple[ToolSpec, ...]
    """All tools as the model sees them; the mode decides which of them it gets."""
    tool_context: ToolContext
    """Where the tools work."""
    cost_limit: CostLimit
    shared_budget: SharedBudget | None = None
    """Counts in place of the session's own budget, for a session with subagents and for these."""
    reserved_usd: float = 0.0
    """What the model call in progress is expected to cost."""
    loop_guard: LoopGuard
    request_options: Mapping[str, Any]
    """Fields of the provider's API that are added to every request."""
    summary_model: ModelFacts | None = None
    """The model that writes summaries, when it is not the session's own."""
    summary_breaker: SummaryBreaker = SummaryBreaker()
    """Decides whether models are asked for summaries; see `clew.session.summary_fallback`."""
    pace: CompactionPace = CompactionPace()
    """How often the view was compacted; see `clew.session.compaction`."""
    compaction_request: CompactionRequest | None = None
    """A compaction that was asked for during a run; done before the next model call."""
    preparation: "Preparation | None" = None
    """The summary that is prepared in the background; see `clew.session.background_compaction`."""
    checkpoints: "FileCheckpoints | None" = None
    """Copies files before tools change them; None when the session keeps no copies."""
    reminders: list[str] = field(default_factory=list)
    """Texts of hooks that are added to the next prompt."""
    source_declared: bool = False
    """True when requests declare the tools of `tool_source`."""
    notices: list[str] = field(default_factory=list)
    """Texts about background tasks that the model reads before its next call."""
    messages: list[str] = field(default_factory=list)
    """What the user said during a run; the model reads it before its next call."""
    plan_mode_told: bool = False
    """True when the model was last told that it is in plan mode."""
    published_todos: tuple[TodoItem, ...] = ()
    """The todo list as clients know it."""
    decisions: dict[str, Decision] = field(default_factory=dict)
    """What was decided about calls that have no result yet, by call id."""
    progress: dict[str, Progress] = field(default_factory=dict)
    """Where calls report that have no result yet, by call id."""
    call_records: CallRecords = field(default_factory=CallRecords)
    """Records calls before they run, with the option `record_calls`."""
    ending: SessionError | None = None
    """Why the run must end after the calls of this answer."""
    completed_runs: int = 0
    is_open: bool = False
    is_closed: bool = False
    opening: "anyio.Lock | None" = None
    """Held while the session is opened."""
    clock: Callable[[], float] = time.time

    def check_open(self) -> None:
        """Raise `SessionClosed` if the session was shut down."""
        if self.is_closed:
            raise SessionClosed("the session was shut down; open another one, with its id")

    def emit(self, event: Event) -> None:
        """Publish an event."""
        self.options["event_bus"].publish(event)

    def context_state(self) -> ContextState:
        """Return how full the window is."""
        view = self.journal.view
        return compute_state(
            view,
            self.policy.thresholds,
            window=view.setup.model.window,
            floor=self.policy.usage_floor,
        )

    @property
    def used_tokens(self) -> int:
        """The tokens of the next request: `ContextState.used_tokens`, without the rest of it."""
        return max(count_tokens(self.journal.view), self.policy.usage_floor)

    def report_context(self) -> ContextState:
        """Publish how full the window is, and return it."""
        state = self.context_state()
        self.emit(ContextUpdated(state))
        return state

    def publish_context(self) -> None:
        """Publish how full the window is, if anyone listens."""
        if self.options["event_bus"].wants(ContextUpdated):
            self.report_context()

    def publish_todos(self) -> None:
        """Publish the todo list, if it has changed."""
        todos = self.journal.view.todos
        if todos != self.published_todos:
            self.published_todos = todos
            self.emit(TodosChanged(todos))

    def find_effort_fields(self, effort: str) -> Mapping[str, Any] | None:
        """Return the fields that set the reasoning effort; None if the model has no such choice."""
        if not effort:
            return {}
        # Few sessions choose an effort.
        from clew.providers.effort import effort_fields  # noqa: PLC0415

        return effort_fields(self.provider.name, self.journal.view.setup.model.name, effort)

    def make_request_options(self) -> dict[str, Any]:
        """Return the fields of the provider's API that the next request has."""
        effort = self.find_effort_fields(self.journal.view.setup.effort)
        return {**(effort or {}), **self.request_options}

    def set_thresholds(self, **shares: Unpack[ThresholdShares]) -> None:
        """Change the thresholds that are given.

        Raises:
            ConfigError: A share is not in `0 < share <= 1`.
        """
        self.policy = replace(self.policy, thresholds=replace(self.policy.thresholds, **shares))

    def cost(self, usage: Usage, model: str | None = None) -> float | None:
        """Return the cost of a call to `model` (default: the session's); None if unknown."""
        name = model or self.journal.view.setup.model.name
        return self.cost_limit.cost(usage, provider=self.provider.name, model=name)

    def set_budget(self, usd: float | None) -> None:
        """Change what the session may cost in all; None for no limit.

        Raises:
            ConfigError: The amount is negative or not finite.
        """
        self.cost_limit = make_cost_limit(usd, self.cost_limit.prices)

    def check_budget(self, expected: Usage = Usage(), model: str = "") -> None:  # noqa: B008
        """Check that the budget allows a call.

        Args:
            expected: The tokens that the call is likely to take.
            model: The model to call. Default: the session's.

        Raises:
            BudgetReached: The call would exceed the budget.
        """
        name = model or self.journal.view.setup.model.name
        limit, spent = self.cost_limit, self.journal.spending
        if self.shared_budget is not None:
            limit = replace(limit, budget=self.shared_budget.limit)
            spent = replace(spent, usd=self.shared_budget.spent)
        limit.check(spent, provider=self.provider.name, model=name, expected=expected)

    def check_next_call(self, added: int = 0) -> None:
        """Check that the budget, if there is one, allows the next call of the conversation.

        Args:
            added: Tokens that join the conversation before the call.

        Raises:
            BudgetReached: The call would exceed the budget.
        """
        if self.budget is not None:
            self.check_budget(self.expect_call(added))

    def affords(self, expected: Usage, model: str) -> bool:
        """Return whether the budget allows a call to `model`."""
        try:
            self.check_budget(expected, model)
        except BudgetReached:
            return False
        return True

    def expect_call(self, added: int = 0) -> Usage:
        """Estimate the tokens of the next call, if `added` tokens join the conversation before."""
        view, spent = self.journal.view, self.journal.spending
        is_warm = self.clock() - view.called_at <= self.policy.prices.cold_after
        return expect_usage(view, self.used_tokens + added, spent=spent, is_warm=is_warm)

    @property
    def budget(self) -> float | None:
        """US dollars that the session and its subagents may cost; None for no limit."""
        shared = self.shared_budget
        return self.cost_limit.budget if shared is None else shared.limit

    @property
    def budget_left(self) -> float | None:
        """US dollars that may still be spent; None for no limit."""
        spent = self.shared_budget.spent if self.shared_budget else self.journal.spending.usd
        return None if self.budget is None else max(0.0, self.budget - spent)

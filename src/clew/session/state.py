"""What the steps of a turn work with: one record, passed along instead of globals."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from clew.context.plan import Strategy
from clew.context.policy import ContextPolicy
from clew.context.reasoning import ReasoningPolicy
from clew.context.state import compute_state
from clew.core.context_state import ContextState
from clew.core.entries import Trigger
from clew.core.errors import SessionError
from clew.core.events import ContextUpdated, Event
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.hooks.protocol import Hooks, NoHooks
from clew.log.protocol import SessionLogger
from clew.providers.protocol import Chunk, Provider, Request
from clew.session.cost_limit import CostLimit
from clew.session.gate import Gate
from clew.session.journal import Journal
from clew.session.loops import LoopGuard
from clew.tools.protocol import Tool, ToolContext

if TYPE_CHECKING:
    from clew.checkpoints.file_checkpoints import FileCheckpoints

Emit = Callable[[Event], None]
Redact = Callable[[Any], Any]
BeforeCompact = Callable[[Trigger], Awaitable[str | None]]
"""Asked before each compaction; a sentence it returns is the reason not to compact."""


class SessionState(Struct, kw_only=True):
    """The parts of one session. Its owner may exchange policy and provider between calls."""

    journal: Journal
    provider: Provider
    tools: Mapping[str, Tool]
    gate: Gate
    policy: ContextPolicy
    strategy: Strategy
    place: ToolContext
    emit: Emit
    parallel_tools: int = 5
    summary_model: ModelFacts | None = None
    """Who writes summaries, when it is not the session's own model."""
    summary_failures: int = 0
    """How many in a row; see `clew.session.summarising`."""
    extra_facts: Callable[[], Sequence[str]] | None = None
    """Lines that every summary must carry, such as what runs in the background."""
    before_compact: BeforeCompact | None = None
    compact_instructions: str = ""
    """What every summary should keep, as the project says it."""
    purse: CostLimit = CostLimit()
    reasoning: ReasoningPolicy = ReasoningPolicy()
    request_options: Mapping[str, Any] = {}
    hooks: Hooks = NoHooks()
    reminders: list[str] = field(default_factory=list)
    """Words of hooks that wait for the next prompt."""
    loops: LoopGuard = field(default_factory=LoopGuard)
    ending: SessionError | None = None
    """Why the run must end when the calls of this answer are done."""
    tool_timeout: float | None = None
    """Seconds that one tool call may take; None leaves it to the tool."""
    redact: Redact | None = None
    """Takes secrets out of what tools say, before anything is written."""
    checkpoints: "FileCheckpoints | None" = None
    """Keeps files before tools change them; None when nothing is kept."""
    log: SessionLogger | None = None
    provider_timeout: float | None = None
    """Seconds without a sign of life after which a call is given up."""
    runs: int = 0
    """How many were completed."""
    clock: Callable[[], float] = time.time

    def stream(self, request: Request, *, purpose: str = "turn") -> AsyncGenerator[Chunk, None]:
        """Have the provider answer, as `Provider.stream` does; the log is shown both sides."""
        if self.log is None:
            return self.provider.stream(request)
        return self.log.call(self.provider, request, purpose=purpose)

    def state(self) -> ContextState:
        """Read the context now."""
        view = self.journal.view
        return compute_state(
            view,
            self.policy.thresholds,
            window=view.setup.model.window,
            floor=self.policy.usage_floor,
        )

    def cost(self, usage: Usage, model: str | None = None) -> float | None:
        """Return what a call to the session's model, or to `model`, cost; None if unknown."""
        name = model or self.journal.view.setup.model.name
        return self.purse.cost(usage, provider=self.provider.name, model=name)

    def check_budget(self) -> None:
        """Make sure that another call may be made; raises `BudgetReached` if not."""
        model = self.journal.view.setup.model.name
        self.purse.check(self.journal.spending, provider=self.provider.name, model=model)

    def report_state(self) -> ContextState:
        """Read the context and tell the screen."""
        state = self.state()
        self.emit(ContextUpdated(state))
        return state

"""Tools that come and go while a session runs, such as those of MCP servers.

Requests declare the tools that a source offers before the first model call of a session. What
changes later reaches the model as a note in the conversation, so that the beginning of requests,
which providers cache, stays as it is.
"""

from collections.abc import Iterator, Mapping, Sequence

from clew.core.models import ToolSpec
from clew.core.permissions import Access, Decision, PermissionAnswer, Risk, Verdict
from clew.session.model_call import ask_aside
from clew.session.plan_mode import offer_tools
from clew.session.state import SessionState
from clew.tools.protocol import AskModel, AskUser, Tool, ToolSource


class LiveTools(Mapping[str, Tool]):
    """A session's own tools, and those that its source has at the moment."""

    def __init__(self, own: Mapping[str, Tool], source: ToolSource) -> None:
        self._own, self._source = own, source

    def __getitem__(self, name: str) -> Tool:
        found = self._own.get(name) or self._source.find(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from (name for name in self._source.list_names() if name not in self._own)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def keep_declared(state: SessionState, stored: Sequence[ToolSpec]) -> None:
    """Declare the tools of the source as the stored session did, until they are known again."""
    source = state.options["tool_source"]
    if source is not None:
        known = (spec for spec in stored if source.owns(spec.name))
        state.all_specs = (*state.all_specs, *known)


async def follow_source(state: SessionState) -> list[str]:
    """Declare the tools of the source before the first model call, and return later changes."""
    source = state.options["tool_source"]
    if source is None:
        return []
    await source.wait_ready()
    if state.source_declared:
        news = source.take_news()
        return [news] if news else []
    state.source_declared = True
    window = state.journal.view.setup.model.window
    own = [spec for spec in state.all_specs if not source.owns(spec.name)]
    state.all_specs = (*own, *source.choose_specs(window))
    await offer_tools(state)
    return []


def make_user_question(state: SessionState, tool: str, call_id: str) -> AskUser | None:
    """Return how a call asks the user in its middle; None if there is nobody to ask."""
    ask = state.gate.ask
    if ask is None:
        return None

    async def ask_user(question: str, shown: Mapping[str, object]) -> PermissionAnswer | None:
        access = Access(
            tool=tool,
            risk=Risk.INSPECT,
            call_id=call_id,
            arguments=dict(shown),
            question=question,
        )
        answer = await ask(access, Decision(Verdict.ASK, question))
        if answer is None or isinstance(answer, PermissionAnswer):
            return answer
        return PermissionAnswer(approval=answer)

    return ask_user


def make_model_question(state: SessionState, tool: str) -> AskModel:
    """Return how a call asks the model outside the conversation, at the session's cost."""

    async def ask_model(prompt: str) -> str:
        return await ask_aside(state, prompt, why=tool)

    return ask_model

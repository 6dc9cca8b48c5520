"""A session with a tool, on a scripted model: no key, no network.

Run it with: python examples/01_hello.py
"""

import anyio

from clew import Risk, Session, tool
from clew.core.events import Event, TextDelta, ToolStarted
from clew.providers.scripted import ScriptedProvider, call_reply


@tool(risk=Risk.INSPECT)
def weather(city: str) -> str:
    """Tell the weather.

    Args:
        city: Which city.
    """
    return f"Sunny in {city}."


def show(event: Event) -> None:
    """Print text and tool calls."""
    match event:
        case TextDelta(text=text):
            print(text, end="", flush=True)
        case ToolStarted(name=name, arguments=arguments):
            print(f"[{name} {arguments}]")
        case _:
            pass


async def main() -> None:
    """Ask one question."""
    model = ScriptedProvider([call_reply(("weather", {"city": "Crete"})), "Take a hat."])
    async with Session(model, model="scripted", tools=[weather]) as session:
        session.bus.on_any(lambda envelope: show(envelope.event))
        await session.run("What is the weather in Crete?")
        print(f"\n{session.get_context_state().used_percentage} % of the window is used.")


if __name__ == "__main__":
    anyio.run(main)

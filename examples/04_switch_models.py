"""One conversation, two providers: the history stays, foreign signatures are not sent.

Run it with: python examples/04_switch_models.py
"""

import anyio

from clew import ModelFacts, Session
from clew.core.usage import Usage
from clew.providers.prices import Price
from clew.providers.protocol import ReasoningChunk
from clew.providers.scripted import ScriptedProvider, text_reply

SPENT = Usage(input_tokens=2_000, output_tokens=100)


async def main() -> None:
    """Start with a model that reasons, and continue with one that does not."""
    thinker = ScriptedProvider(
        [
            [
                ReasoningChunk(index=0, text="Which flower?", signature="sealed"),
                *text_reply("A marigold.", usage=SPENT),
            ]
        ],
        ModelFacts(name="thinker", window=100_000),
        name="anthropic",
    )
    talker = ScriptedProvider(
        [text_reply("You asked about a marigold.", usage=SPENT)],
        ModelFacts(name="talker", window=100_000),
        name="openai_chat",
    )
    prices = {"thinker": Price(input=5, output=25), "talker": Price(input=1, output=4)}
    async with Session(thinker, model="thinker", prices=prices, budget_usd=1.0) as session:
        print(await session.run("Name a flower."))
        await session.set_model("talker", provider=talker)
        print(await session.run("What did I ask about?"))
        spent = session.get_cost()
        print(f"{spent.calls} calls cost ${spent.usd:.4f}")


if __name__ == "__main__":
    anyio.run(main)

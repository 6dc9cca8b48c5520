"""Tools that a model can call: the protocol, the `@tool` decorator, and the built-in tools."""

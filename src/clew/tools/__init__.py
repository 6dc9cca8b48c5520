"""What a model may do besides talk: a protocol, a decorator, and the built-in tools."""

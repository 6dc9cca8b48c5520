"""`fit` and `count_tokens`: the context engine for your own agent loop, on message dictionaries."""

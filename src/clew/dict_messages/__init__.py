"""For people with their own agent loop: the context engine as plain functions on messages."""

"""OpenAI Chat Completions, and everything that speaks like it."""

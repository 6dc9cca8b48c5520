"""Clew runs long LLM-agent sessions without losing the thread."""

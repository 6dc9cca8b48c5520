"""Frozen values that every layer shares: messages, entries, events, usage, models, errors."""

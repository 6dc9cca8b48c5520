"""File helpers that every layer shares: written once, used by all."""

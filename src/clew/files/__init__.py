"""File helpers for all packages: atomic replacement, locks, reading in untrusted folders."""

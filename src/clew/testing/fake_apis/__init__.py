"""Encode scripted replies as the real APIs do, one module per API."""

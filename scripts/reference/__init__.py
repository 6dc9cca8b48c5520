"""Generates `docs/reference` from the docstrings: `python -m scripts.reference`."""

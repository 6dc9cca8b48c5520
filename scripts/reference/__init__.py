"""The reference in `docs/reference`, written from the docstrings: `python -m scripts.reference`."""

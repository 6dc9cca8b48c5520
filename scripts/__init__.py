"""Programs for people who work on Clew; `python -m scripts.NAME` runs one."""

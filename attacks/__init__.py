"""Corpora of attacks on Clew, which `make attack` runs; none of this is in the wheel."""

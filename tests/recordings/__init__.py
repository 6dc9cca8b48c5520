"""Recorded traffic of real providers, and the checks that the wire formats must pass on it.

`python -m tests.recordings` prints passed / total per API. The recordings are read from
beside the repository and are no part of it.
"""

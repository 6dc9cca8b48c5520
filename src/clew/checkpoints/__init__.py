"""Checkpoints of files: each prompt can be rewound together with the files it changed.

Before a tool changes a file for the first time in a turn, its content is copied into a store of
blobs named by their SHA-256, and a line in a manifest is forced to disk. A rewind restores the
turns newest first. What a restore overwrites becomes a checkpoint of its own, so the restore can
be undone too.
"""

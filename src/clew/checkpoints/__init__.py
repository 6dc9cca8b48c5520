"""Code rewind: files as they were before each prompt, kept so that they can be brought back.

Before a tool changes a file for the first time in a turn, the file is copied into a store of
blobs named by their content, and a line about it is forced to disk. To go back, the turns are
taken back newest first. What a restore overwrites is kept in the same way, as a checkpoint of
its own, so that it can be taken back too.
"""

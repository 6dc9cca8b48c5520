"""Recall: search everything that was said and done, in the view or not, and read it in full.

`query` parses what is looked for, `documents` makes what an index keeps, `search` ranks what an
index of a store finds, `answer` writes the result for a model or a person.
"""

RECALL = "Recall"
"""The name of the tool; its own results are not searched."""

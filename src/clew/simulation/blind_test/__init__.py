"""The blind reading test: what can a reader still answer from a compacted view?

`cases` are the compactions of a recording, `compared_views` what each way of compacting leaves.
A model writes `questions` from the full text, answers them from one view each, and grades the
shuffled answers without knowing the views (`prompts`, `replies`, `model_calls`, `runner`). Every
reply is kept in `records`; `cost` says beforehand what the calls take, `scores` what came out.
"""

"""The session: the turn loop, compaction in action, the journal and its stores."""

"""What a project wants remembered: an index, topics, and facts that wait for approval.

`ProjectMemory` is the door. The parts behind it can be used on their own: the extractor finds
candidates, the policy decides about them, two stores keep them, and retrieval finds them again.
"""

from clew.extensions.memory.candidates import (
    Candidate,
    Cue,
    Decision,
    MemoryCandidateExtractor,
    MemoryPolicyEvaluator,
)
from clew.extensions.memory.events import MemoryEvent, Outcome, Reference
from clew.extensions.memory.facts import KINDS, Fact, Kind
from clew.extensions.memory.pending import Pending, PendingMemoryStore
from clew.extensions.memory.project import ProjectMemory
from clew.extensions.memory.retrieval import MemoryRetrievalService, Page
from clew.extensions.memory.store import ProjectMemoryStore, Topic

__all__ = [
    "KINDS",
    "Candidate",
    "Cue",
    "Decision",
    "Fact",
    "Kind",
    "MemoryCandidateExtractor",
    "MemoryEvent",
    "MemoryPolicyEvaluator",
    "MemoryRetrievalService",
    "Outcome",
    "Page",
    "Pending",
    "PendingMemoryStore",
    "ProjectMemory",
    "ProjectMemoryStore",
    "Reference",
    "Topic",
]

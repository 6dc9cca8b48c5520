"""Project memory: an index, topics, and facts that wait for approval.

Use `ProjectMemory`. Its parts also work on their own: the extractor finds candidates, the policy
decides about them, two stores keep them, and the retrieval service finds them again.
"""

from clew.extensions.memory.candidates import (
    Cue,
    MemoryCandidate,
    MemoryCandidateExtractor,
    MemoryPolicyEvaluator,
    PolicyDecision,
)
from clew.extensions.memory.events import MemoryEvent, MemoryOutcome, MemoryReference
from clew.extensions.memory.facts import FACT_KINDS, Fact, FactKind
from clew.extensions.memory.pending_facts import PendingFact, PendingMemoryStore
from clew.extensions.memory.project import ProjectMemory
from clew.extensions.memory.retrieval import MemoryPage, MemoryRetrievalService
from clew.extensions.memory.store import MemoryTopic, ProjectMemoryStore

__all__ = [
    "FACT_KINDS",
    "Cue",
    "Fact",
    "FactKind",
    "MemoryCandidate",
    "MemoryCandidateExtractor",
    "MemoryEvent",
    "MemoryOutcome",
    "MemoryPage",
    "MemoryPolicyEvaluator",
    "MemoryReference",
    "MemoryRetrievalService",
    "MemoryTopic",
    "PendingFact",
    "PendingMemoryStore",
    "PolicyDecision",
    "ProjectMemory",
    "ProjectMemoryStore",
]

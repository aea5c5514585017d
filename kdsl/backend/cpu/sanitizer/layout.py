"""What instrumented code and the runtime agree on: the words that describe an access, the state of a launch, and the table of findings.

**Time.** Blocks of an instrumented launch run one after the other. A clock counts their starts and their barriers, over all launches, so the time of an access
says which launch it belongs to, which block (that which started last before) and which barriers of the block came before it.

**Shadow.** Each granule of memory (the smallest number that an element holds) has four words, of a local array one: the last plain write, the last atomic
write, and the last reads of two threads. A word is a time, a site (where in the source), a thread of the block and two flags; 0 says never, `BY_HOST` that
the host wrote it. Two accesses are unordered if they are of different blocks of a launch, or of different threads of a block at the same time, unless both
are of one warp whose lanes have waited for each other in between.
"""

from __future__ import annotations

from typing import Final

WORDS: Final = 4
"""Words per granule of a global or shared array."""
WRITTEN, ATOMIC, READ, READ_BEFORE = range(WORDS)
"""What they are: the last plain write, the last atomic write, the last read, and the last one of another thread before it."""

STEP: Final = 1 << 24
"""One step of the clock, which is the upper 40 bits of a word."""
SITE_SHIFT: Final = 12
MOST_SITES: Final = 1 << 12
"""Sites that a word can tell apart; the last one stands for all beyond."""
THREAD_SHIFT: Final = 2
THREAD_MASK: Final = 1023 << THREAD_SHIFT
"""The number of the thread in its block."""
WARP_MASK: Final = (1023 - 31) << THREAD_SHIFT
"""That part of it which tells the warp."""
SEVERAL: Final = 1
"""Of the atomic word: other threads of the block at the same time, too."""
PENDING: Final = 1
"""Of a write: an asynchronous copy that has not been waited for."""
BLOCKS: Final = 2
"""Of the atomic word and of reads: other blocks of the launch, too."""
BY_HOST: Final = 1
"""A write before all launches."""

# The state of a launch: words.
NOW: Final = 0
"""The clock."""
FLOOR: Final = 1
"""Accesses of other blocks before it are ordered before all that follows: the start of the launch, or what the block has acquired."""
BLOCK: Final = 2
"""Start of the present block."""
INTERVAL: Final = 3
"""Its last barrier, or its start."""
LAUNCH: Final = 4
"""Start of the launch."""
BLOCK_NUMBER: Final = 5
BLOCK_TIMES: Final = 6
"""Address of the starts of all blocks of the launch, by their numbers."""
TABLE: Final = 7
"""Address of the findings."""
LOST: Final = 8
"""Findings for which there was no room."""
FOUND: Final = 9
"""Findings in the table."""
COPIES: Final = 10
"""Address of the queues of asynchronous copies, one per thread."""
WARP: Final = 11
"""The last time at which the lanes of the present warp waited for each other; of another warp if this one has not since it began."""
MEMORIES: Final = 16
"""From here on, for each array of the kernel, the address of its shadow: that of the granule of its first element."""

# A finding: words. Findings of one kind, site and other site are one, counted.
ENTRY: Final = 16
ENTRIES: Final = 512
KEY, COUNT, AT_BLOCK, AT_THREAD, OTHER, OFFSET, DIMENSION, EXTENT, INDICES = range(9)
"""Kind, site and other site; how many; block and thread of the first; the word of the other access; granules from the array's first element (or a value);
dimension and extent of what is outside (or the granule within the access); indices."""
MOST_INDICES: Final = ENTRY - INDICES

# A queue of copies: words.
COMMITTED: Final = 0
"""Groups that the thread has closed."""
FIRST: Final = 1
LAST: Final = 2
"""The copies under way are numbers `FIRST` to `LAST` - 1."""
QUEUE: Final = 4
"""From here on the copies, each its first shadow word, its granules, its word and its group."""
COPY: Final = 4
MOST_COPIES: Final = 64
"""Copies under way per thread; an older one counts as waited for."""
QUEUE_WORDS: Final = QUEUE + COPY * MOST_COPIES

KINDS: Final = (
    "", "race", "uninitialised", "outside", "misaligned", "unfinished copy", "divide", "shift", "mask", "conversion", "not a number", "inactive lane",
    "missing lane", "assertion",
)  # fmt: skip
"""Kinds of findings by their numbers."""
KIND_SHIFT: Final = 32


def kind(name: str) -> int:
    """The number of a kind."""
    return KINDS.index(name)


def word_site(word: int) -> int:
    """The site of a word."""
    return word >> SITE_SHIFT & MOST_SITES - 1


def word_thread(word: int) -> int:
    """The thread of a word."""
    return (word & THREAD_MASK) >> THREAD_SHIFT

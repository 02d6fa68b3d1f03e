"""Texts of the codes that jobs and reviews write into the figures of rows."""

from console.text import Text

EPISODE_WORDS = {
    "breach": Text("Late"),
    "stall": Text("A queue stalled"),
    "offline": Text("Nothing consumed"),
    "lost": Text("Lost to retention"),
}
EVENT_WORDS = {
    "REWIND": Text("Set back"),
    "SKIPPED": Text("Skipped"),
    "LOST": Text("Lost to retention"),
    "RECREATED": Text("Topic recreated"),
    "HEAD_REGRESSION": Text("Broker lost its tail"),
}
# Codes in the figures of rows, as the jobs and reviews write them.
CODE_WORDS = {
    # what a week compares
    "in": Text("in"),
    "out": Text("out"),
    "time lag p95": Text("Time lag p95"),
    "skew": Text("skew"),
    # what comes of it
    "higher": Text("higher"),
    "lower": Text("lower"),
    "no clear change": Text("no clear change"),
    "too few days": Text("too few days"),
    # what changed first in an episode
    "queue stuck": Text("a queue was stuck"),
    "reset": Text("reset"),
    "retention": Text("retention"),
    "slow": Text("slower than usual"),
    "surge": Text("more messages than usual"),
    "unclear": Text("unclear"),
    # why something is dead weight
    "idle": Text("idle"),
    "never committed": Text("never committed"),
    "no consumer": Text("no consumer"),
    "no progress": Text("no progress"),
    "offline": Text("offline"),
    # what a week proposes
    "another key": Text("another key"),
    "longer retention": Text("longer retention"),
    "more consumers": Text("more consumers"),
    "more queues": Text("more queues"),
    "remove": Text("remove"),
}
EVENT_STATUS = {"REWIND": "REWOUND", "SKIPPED": "SKIPPED", "LOST": "LOST"}

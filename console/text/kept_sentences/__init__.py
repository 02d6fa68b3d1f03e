"""The English of every sentence that code writes and pages translate: see `console.text.sentences`.

A sentence stands here as code writes it, with a name for each place: `%(number)s`, `(s)` for a plural's s,
`{is|are}` for either word, `%%` for a percent sign.
`tests/console/test_translations.py` finds those that code no longer writes.
"""

from console.text.kept_sentences import (
    broker_keys,
    brokers_and_messages,
    by_clients,
    coverage,
    modes,
    more,
    pauses,
    people,
    report_tables,
    short_words,
)

SENTENCES = frozenset(
    (
        *people.SENTENCES,
        *brokers_and_messages.SENTENCES,
        *broker_keys.SENTENCES,
        *more.SENTENCES,
        *pauses.SENTENCES,
        *modes.SENTENCES,
        *coverage.SENTENCES,
        *by_clients.SENTENCES,
        *report_tables.SENTENCES,
        *short_words.SENTENCES,
    )
)

"""Sentences that rows of earlier versions keep by an id that is no longer written, and the id of today.

Whoever rewrites the sentence of a `Text` that rows store adds the pair here: pages then show old rows in the words and
the language of today. A place of the new sentence is a place of the old one.
"""

from __future__ import annotations

from collections.abc import Mapping

FORMER: Mapping[str, str] = {
    "%(broker)s does not report how many messages it takes (msgPutTotalTodayNow).": (
        "%(broker)s does not report how many messages it stores (msgPutTotalTodayNow)."
    ),
    "%(broker)s is away: %(why)s": "%(broker)s does not answer: %(why)s",
    "%(broker)s was changed by someone else in the meantime: %(difference)s": (
        "%(broker)s was changed elsewhere in the meantime: %(difference)s"
    ),
    "%(name)s has no key %(key)s: a broker of this release would ignore it. Its page lists all keys.": (
        "%(name)s has no key %(key)s: a broker of this release would ignore it. The broker's page lists "
        "all keys."
    ),
    (
        "%(names)s restored the permission %(number)s times: topics change on the broker all the time, "
        "or another program restores it."
    ): (
        "%(names)s restored the permission %(number)s times: topics keep changing on the broker, or "
        "another program restores it."
    ),
    "%(number)s messages passed retention before they were read": (
        "%(number)s messages were deleted by retention before they were consumed"
    ),
    "%(number)s offsets were committed under this name before: it goes on from there.": (
        "%(number)s offsets were committed under this name before: the group continues from them."
    ),
    "%(number)s queue(s) of %(group)s {stands|stand} at the target already": (
        "%(number)s queue(s) of %(group)s {is|are} at the target already"
    ),
    "%(number)s queue(s) {stands|stand} at the target already": (
        "%(number)s queue(s) {is|are} at the target already"
    ),
    "%(number)s queue(s) {stays|stay} as before": "%(number)s queue(s) {stays|stay} unchanged",
    "%(number)s queue(s) {stays|stay} as before: %(why)s": (
        "%(number)s queue(s) {stays|stay} unchanged: %(why)s"
    ),
    "%(number)s sends have no outcome": "The outcome of %(number)s sends is unknown",
    "%(pace)s, %(arriving)s, it is level again in about %(time)s": (
        "%(pace)s, %(arriving)s, the group has caught up in about %(time)s"
    ),
    "%(pace)s, %(arriving)s, it would not become level again": (
        "%(pace)s, %(arriving)s, the group would never catch up"
    ),
    "%(place)s is not the copy of letter %(letter)s": "%(place)s is not the copy of dead letter %(letter)s",
    "%(queue)s stands at %(offset)s, not at %(target)s": "%(queue)s is at %(offset)s, not at %(target)s",
    "%(queue)s stands at %(target)s, where the broker's own search led, not at %(planned)s": (
        "%(queue)s is at %(target)s, as the broker's own search returned, not at %(planned)s"
    ),
    "%(span)s: nothing of it could be read, the rows of before stay": (
        "%(span)s: nothing could be read, earlier rows are kept"
    ),
    "%(speed)s: %(takes)s at the speed of the last one": (
        "%(speed)s: %(takes)s at the speed of the last replay"
    ),
    "%(time)s has not come yet: every queue goes to its end, what waits is skipped.": (
        "%(time)s is in the future: every queue goes to its end, and all waiting messages are skipped."
    ),
    "%(time)s has not come yet: nothing is recorded of it.": (
        "%(time)s is in the future: nothing is recorded yet."
    ),
    (
        "%(time)s lies in a gap of the history of %(broker)s: %(seen)s. Choose another time, or leave "
        "the queues of %(broker)s out."
    ): (
        "%(time)s is in a gap of the history of %(broker)s: %(seen)s. Choose another time, or leave out "
        "the queues of %(broker)s."
    ),
    "%(what)s, which then go nowhere: there is no other broker": (
        "%(what)s, which then fail: there is no other broker"
    ),
    "A later replay leaves them out unless it is set to send everything again.": (
        "A later replay skips them unless it is set to send everything again."
    ),
    "A queue stood still": "A queue stalled",
    "A second person must agree; you made this plan yourself.": (
        "A second person must approve this plan; you made it yourself."
    ),
    "An error of the console itself; the worker's log has it.": (
        "Internal error of the console; see the worker's log."
    ),
    "Another job ended at this moment: apply again.": "Another job has just ended: apply again.",
    "Applied by %(person)s: state read again, nothing moved": (
        "Applied by %(person)s: state read again, nothing had changed"
    ),
    "As it was at …": "As recorded at …",
    "As of the last round; they may be many.": "As of the last round; there may be many.",
    "At %(rate)s messages a second, its best minute of the last hour": (
        "At %(rate)s messages a second, the group's best minute of the last hour"
    ),
    "Create %(name)s on %(where)s as it was. Its messages do not come back.": (
        "Create %(name)s on %(where)s as it was. Its messages cannot be restored."
    ),
    "Every topic reads “read, write” afterwards": "Afterwards every topic shows “read, write”",
    "From %(number)s messages on, this cluster requires a second person to agree.": (
        "From %(number)s messages on, a second person must approve on this cluster."
    ),
    "From %(number)s messages on, you type the name of the group to confirm.": (
        "From %(number)s messages on, the name of the group must be typed to confirm."
    ),
    ("Give one dead letter of %(group)s (%(place)s) to the client %(client)s, once, and show its answer."): (
        "Deliver one dead letter of %(group)s (%(place)s) to the client %(client)s, once, and show its "
        "answer."
    ),
    "How groups did over months, quarters and years of the business time zone.": (
        "How each group performed over months, quarters and years of the business time zone."
    ),
    "How long that takes is not known: the group was not seen reading in the last hour.": (
        "How long that takes is unknown: no consumption of the group was recorded in the last hour."
    ),
    "It cannot be called back.": "A sent message cannot be recalled.",
    "It has been in quarantine for %(age)s; deleting is offered after %(hours)s hours, at %(time)s.": (
        "It has been in quarantine for %(age)s; it can be deleted after %(hours)s hours, from %(time)s on."
    ),
    "Its committed offsets (%(number)s) go too and are recorded for the undo.": (
        "Its committed offsets (%(number)s) are deleted too, and recorded for the undo."
    ),
    "Line %(number)s names %(name)s again.": "Line %(number)s repeats %(name)s.",
    "Members not known": "Unknown members",
    "Members take them as fast as they can: consider the systems they call.": (
        "Members consume them as fast as they can: consider the systems that they call."
    ),
    "Messages do not come back": "Messages cannot be restored",
    "Names and texts have no control characters 0, 1, 2.": (
        "Names and values must not contain the control characters 0, 1 and 2."
    ),
    "Neither here nor by a consumer.": "Neither this console nor a consumer can read it.",
    "No broker has a connection of %(client)s for %(group)s now: it left, or was never here.": (
        "No broker has a connection of %(client)s for %(group)s now: it has disconnected, or was never "
        "connected."
    ),
    (
        "No history of %(cluster)s lies in this window. The collector writes it from its first round on; "
        "choose a later window."
    ): (
        "There is no history of %(cluster)s in this window. The collector writes it from its first round "
        "on; choose a later window."
    ),
    (
        "None of the %(number)s history files of %(cluster)s could be read, and the rows of before stay. "
        "The first: %(reason)s (%(path)s). Check that HISTORY_URL can be reached with its credentials, "
        "and run the report again."
    ): (
        "None of the %(number)s history files of %(cluster)s could be read; earlier rows are kept. The "
        "first: %(reason)s (%(path)s). Check that HISTORY_URL can be reached with its credentials, and "
        "run the report again."
    ),
    "Nothing is read until one connects.": "Nothing is consumed until one connects.",
    "Nothing would change: %(level)s of %(rows)s queues stand there, the others stay as before.": (
        "Nothing would change: %(level)s of %(rows)s queues are at the target, the others stay as they are."
    ),
    "Nothing would change: all %(rows)s queues stand at the target already.": (
        "Nothing would change: all %(rows)s queues are at the target already."
    ),
    "Notified %(names)s to offer it again": "Requested %(names)s to offer it to producers again",
    "Notified %(names)s to offer it to no producer": "Requested %(names)s to stop offering it to producers",
    "One run covers at most %(most)s hours, and these are %(number)s: run the report in parts.": (
        "One run covers at most %(most)s hours, and the window has %(number)s: run the report in parts."
    ),
    "Only the target client has a client.": "client_id is only for the target client.",
    "Only the target other_topic has a topic.": "topic is only for the target other_topic.",
    "Other groups see nothing": "Other groups receive nothing",
    (
        "POP: members hold %(number)s messages, and what they hold has not become less for %(time)s: "
        "none is seen to be acknowledged"
    ): (
        "POP: members hold %(number)s messages, and the number has not decreased for %(time)s: none is "
        "acknowledged"
    ),
    "Properties are names and texts, at most %(most)s.": (
        "Properties are names and text values, at most %(most)s."
    ),
    (
        "Put %(name)s on %(where)s in quarantine: %(closes)s. Deleting is offered after %(hours)s hours; "
        "release takes one click."
    ): (
        "Put %(name)s on %(where)s in quarantine: %(closes)s. It can be deleted after %(hours)s hours "
        "and released at any time."
    ),
    (
        "Put it in quarantine first: it is still open on %(where)s. Deleting is offered %(hours)s hours "
        "later."
    ): (
        "Put it in quarantine first: it is still in use on %(where)s. It can be deleted %(hours)s hours "
        "later."
    ),
    "Put it in quarantine first: it is still open. Deleting is offered %(hours)s hours later.": (
        "Put it in quarantine first: it is still in use. It can be deleted %(hours)s hours later."
    ),
    (
        "Stopped by its policy: %(number)s dead letters failed, %(limit)s were allowed. The ledger has "
        "the reasons; a new plan leaves out what was sent."
    ): (
        "Stopped as set: %(number)s dead letters failed, %(limit)s were allowed. The ledger lists the "
        "reasons; a new plan skips what was sent."
    ),
    (
        "Stopped by its policy: %(number)s new dead letters of %(group)s since it began, %(limit)s were "
        "allowed. The cause is not gone yet."
    ): (
        "Stopped as set: %(number)s new dead letters of %(group)s since it began, %(limit)s were "
        "allowed. The cause still exists."
    ),
    "The Spark job's answer is not understood: %(why)s.": "The Spark job's answer cannot be read: %(why)s.",
    "The cluster %(cluster)s was removed meanwhile.": "The cluster %(cluster)s was removed in the meantime.",
    "The filter is an object.": "The filter must be an object.",
    (
        "The group consumes orderly: while its members hold queue locks, 5.x brokers move what is sent "
        "to its retry topic straight back to the dead letters. Choose the original topic, or stop the "
        "members."
    ): (
        "The group consumes in order: while its members hold queue locks, 5.x brokers move messages of "
        "its retry topic straight back to the dead letters. Choose the original topic, or stop the "
        "members."
    ),
    "The group is in use since: put it in quarantine and delete it instead.": (
        "The group has been used since: put it in quarantine and delete it instead."
    ),
    (
        "The history has no offsets of %(group)s for %(time)s: it does not reach back that far, or this "
        "console did not collect then. The chart of the group shows what is recorded."
    ): (
        "The history has no offsets of %(group)s for %(time)s: it begins later, or this console did not "
        "collect then. The chart of the group shows what is recorded."
    ),
    (
        "The job made %(number)s rows, and %(found)s are in its output %(folder)s: the rows of before "
        "stay. Set REPORTS_URL to storage that the console and every Spark worker share."
    ): (
        "The job made %(number)s rows, and %(found)s are in its output %(folder)s: earlier rows are "
        "kept. Set REPORTS_URL to storage that the console and every Spark worker share."
    ),
    "The listener sees the dead-letter topic": "The listener receives the dead-letter topic",
    "The message it was made of is gone, so the listener gets %(topic)s as the topic's name.": (
        "The original message is gone, so the listener receives %(topic)s as the topic's name."
    ),
    "The rates of these topics are not known yet.": "The rates of these topics are unknown so far.",
    "The time lies in the future": "The time is in the future",
    (
        "The traffic is gone: nothing arrived for %(seconds)s s; %(number)s message(s) {was|were} still "
        "taken before"
    ): (
        "The traffic is gone: nothing arrived for %(seconds)s s; %(number)s message(s) {was|were} still "
        "accepted before"
    ),
    "The window lies in the future: nothing has been measured yet.": (
        "The window is in the future: nothing has been measured yet."
    ),
    "There are offsets of this name already": "Offsets exist under this name already",
    (
        "They are, or will be by then, older than their broker keeps messages; it deletes whole files, "
        "so most of them last a little longer. A higher rate helps."
    ): (
        "By then they are older than the broker's retention. The broker deletes whole files, so most "
        "remain a little longer. A higher rate helps."
    ),
    "They read the same topic: %(names)s. Choose the failed group as target to spare them.": (
        "They read the same topic: %(names)s. To avoid this, choose only the failed group as target."
    ),
    "They will be sent once more.": "They will be sent again.",
    "This change touches %(number)s messages: a second person must approve it.": (
        "This change affects %(number)s messages: a second person must approve it."
    ),
    "This touches a whole broker": "This affects a whole broker",
    "This would change nothing for %(group)s.": "Nothing would change for %(group)s.",
    "This would change nothing: %(name)s already has these settings on every broker.": (
        "Nothing would change: %(name)s already has these settings on every broker."
    ),
    "This would change nothing: %(why)s.": "Nothing would change: %(why)s.",
    "This would give one dead letter of %(group)s to the client %(client)s.": (
        "One dead letter of %(group)s would be delivered to the client %(client)s."
    ),
    "Undo does not bring them back.": "Undo does not restore them.",
    "Undo of a plan": "Undo a plan",
    "What came into each topic, message by message, from the brokers’ store files.": (
        "What was written to each topic, message by message, from the brokers’ store files."
    ),
    "What each group can process, what it has to, and how much room retention leaves.": (
        "What each group can process, what it has to process, and how much room retention leaves."
    ),
    "What stays: %(topics)s with %(number)s message(s).": "Kept: %(topics)s with %(number)s message(s).",
    (
        "When its members were last seen they kept their own offsets in files; they do not read the "
        "offsets on brokers."
    ): (
        "When last queried, its members kept their own offsets in files; they do not read the offsets on "
        "brokers."
    ),
    "Write a queue as broker name, colon, number: broker-a:3.": (
        "Enter a queue as broker name, colon and number, like broker-a:3."
    ),
    "a worker stood still for longer than its lease with this letter in hand: it may have been sent": (
        "a worker was suspended longer than its lease while it sent this dead letter: it may have been sent"
    ),
    "as fast as the brokers take them": "as fast as the brokers accept them",
    "back or forth from where each queue is": "back or forward from each queue's offset",
    "back to before it was applied": "the offsets from before it was applied",
    "by the broker's default so far": "the broker's default so far",
    "cannot simply be undone": "cannot be undone directly",
    "changed by someone else since": "changed elsewhere since",
    "changed by someone else since: %(difference)s": "changed elsewhere since: %(difference)s",
    "deliveries after the first before a message becomes a dead letter; −1 = the client's own": (
        "retries before a message becomes a dead letter; −1: the client decides"
    ),
    "is back at %(offset)s, or past it, by consumption": (
        "has already reached or passed %(offset)s by consumption"
    ),
    "its writer stopped before the file was whole": "its writer stopped before the file was complete",
    "left out, runs of a report do not overlap: %(why)s": (
        "skipped, runs of a report do not overlap: %(why)s"
    ),
    "may not consume already": "is already not allowed to consume",
    "members may pull; off is the quarantine": "members may consume; off while in quarantine",
    "messages wait, nothing was read yet, and the clients are not reported yet: healthy or offline": (
        "messages wait, nothing was consumed yet, and the clients are not reported yet: healthy or offline"
    ),
    "missed: nothing was running then": "missed: the console was not running then",
    "never committed: there is nothing to shift from": "never committed: there is no offset to shift",
    "no offset is known to go to": "no target offset is known",
    "nothing to make it from in its window": "no data in its window",
    "queue %(queue)s ends at %(now)s instead of %(before)s": (
        "queue %(queue)s ends at %(now)s, not at %(before)s"
    ),
    "replay passed it over: %(reason)s": "skipped by a replay: %(reason)s",
    "replay without an outcome: %(reason)s": "outcome of the replay unknown: %(reason)s",
    "skip all that is not handled": "skip all messages that are not handled",
    (
        "the request was sent to the client, and the worker died before the answer: the client may have "
        "consumed the message"
    ): (
        "the request was sent to the client, and the worker ended before the answer: the client may have "
        "consumed the message"
    ),
    "touches %(number)s messages": "affects %(number)s messages",
    "under a second": "less than a second",
    "waiting: the worker stopped, taking it up again": (
        "waiting: the worker stopped; the run will be resumed"
    ),
    "while %(rate)s a second come in": "while %(rate)s a second arrive",
}


def id_of_today(text: str) -> str:
    """Return the id under which the catalogue has the sentence of a row."""
    return FORMER.get(text, text)

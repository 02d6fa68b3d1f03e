"""What nearly all producers send, by the compiled functions. What they leave alone is `Sender`'s."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from brokerd.processor.broker import Broker
from brokerd.remoting.header.send_header import SendReplyTemplate
from brokerd.remoting.message.hosts import encode_host

BEGINNING = b'{"code":310'  # of the header of what `hot.sends` reads


class CompiledSends:
    """Made anew when a setting changes that is kept here. `entries`: topic → the sender's TopicEntry."""

    def __init__(
        self,
        functions: ModuleType,
        broker: Broker,
        entries: Mapping[str, object],
        added_properties: bytes,
        id_prefix: str,
        region_fields: dict[str, str],
    ) -> None:
        self._functions = functions
        self._store = broker.store
        self._encoded = broker.store.encoded
        self._topics = broker.topics.topics
        self._entries = entries
        self._broker_put = broker.stats.broker_put
        self._added = added_properties
        self._store_host = encode_host(broker.store_host)
        self._id_prefix = id_prefix.encode()
        head, *rest = SendReplyTemplate(region_fields).pieces
        self._pieces = (head + self._id_prefix, *rest)

    def sends(
        self, data: bytes, position: int, born_host: tuple[str, int], now_ms: int
    ) -> tuple[int, list[bytes]]:
        """Store the ordinary sends that follow each other from `position` on; (where they end, their answers).

        Nothing is changed where that is `position`.
        """
        if not data.startswith(BEGINNING, position + 8) or self._store.refusal:
            return position, []
        offset, room, stored_ms = self._encoded.place(now_ms)
        found = self._functions.sends(
            data,
            position,
            self._entries,
            self._topics,
            self._encoded.queues,
            self._added,
            self._store_host,
            self._pieces,
            encode_host(born_host),
            stored_ms,
            offset,
            room,
            self._store.config.max_message_size,
        )
        if found is None:
            return position, []
        position, entry, records, notes, answers = found
        self._encoded.append(records, notes, stored_ms)
        count = len(notes)
        entry.put_nums.add_many(count, count)
        entry.put_size.add_many(len(records), count)
        self._broker_put.add_many(count, count)
        return position, answers

    def batch(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        sys_flag: int,
        born_timestamp_ms: int,
        born_host: tuple[str, int],
        reconsume_times: int,
        now_ms: int,
    ) -> tuple[int, int, int, str] | None:
        """Store a batch, as MessageStore.put_messages does; None: nothing is changed.

        Returns how many messages, their bytes, the first one's queue offset, and their ids.
        """
        queue = self._encoded.queues.get((topic, queue_id))
        if queue is None or self._store.refusal or self._store.config.has_light_queues:
            return None
        offset, room, stored_ms = self._encoded.place(now_ms)
        try:
            found = self._functions.batch(
                body,
                queue,
                queue.magic_and_topic[1],
                self._added,
                queue_id,
                queue.next_offset,
                offset,
                min(room, self._store.config.max_message_size),
                sys_flag,
                born_timestamp_ms,
                encode_host(born_host),
                stored_ms,
                self._store_host,
                reconsume_times,
                self._id_prefix,
            )
        except OverflowError:
            return None  # a number that no record can hold
        if found is None:
            return None
        records, units, keyed, ids = found
        first, size_bytes = queue.next_offset, len(records)
        note = (queue, first, offset, size_bytes, units, stored_ms, keyed)
        self._encoded.append(records, [note], stored_ms)
        return len(keyed), size_bytes, first, ids

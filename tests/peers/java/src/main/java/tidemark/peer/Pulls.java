package tidemark.peer;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * {@code pull}: a lite pull consumer of --group. With --assign true it takes all queues of the topic, from what the group
 * committed, else it subscribes and shares them. It polls until --expect messages came or --seconds passed and commits. With
 * --seek N it goes back to N in every queue and polls --again messages. Lines {@code READY}, {@code M client queue offset
 * reconsume key tag body}, {@code AGAIN queue offset}, {@code COMMITTED queue offset}.
 */
final class Pulls {
    private static final int POLL_MS = 500;
    private final Peer peer;

    Pulls(Peer peer) {
        this.peer = peer;
    }

    void run() throws Exception {
        String topic = peer.option("topic", "T");
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(peer.option("group", "pullers"));
        consumer.setNamesrvAddr(peer.option("namesrv", ""));
        consumer.setInstanceName(peer.option("instance", "one"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setVipChannelEnabled(false);
        consumer.setAutoCommit(false);
        boolean assigns = peer.option("assign", "false").equals("true");
        if (!assigns) consumer.subscribe(topic, peer.option("filter", "*"));
        consumer.start();
        List<MessageQueue> queues = new ArrayList<>();
        if (assigns) {
            queues.addAll(consumer.fetchMessageQueues(topic));
            // Not seekToBegin: a pull that is under way is put behind the client's own, and messages come twice.
            consumer.assign(queues);
        }
        peer.say("READY");
        poll(consumer, peer.number("expect", Integer.MAX_VALUE), m -> peer.say("M", peer.option("instance", "one"),
                m.getQueueId(), m.getQueueOffset(), m.getReconsumeTimes(), m.getKeys(), m.getTags(),
                new String(m.getBody(), StandardCharsets.UTF_8)));
        consumer.commitSync();
        if (assigns) {
            for (MessageQueue queue : queues) peer.say("COMMITTED", queue.getQueueId(), consumer.committed(queue));
            for (MessageQueue queue : queues) consumer.seek(queue, peer.number("seek", 0));
            poll(consumer, peer.number("again", 0), m -> peer.say("AGAIN", m.getQueueId(), m.getQueueOffset()));
        }
        consumer.shutdown();
    }

    /** Until so many came, the time is over or this peer is to stop. */
    private void poll(DefaultLitePullConsumer consumer, int count, Consumer<MessageExt> say) throws Exception {
        long endMs = System.currentTimeMillis() + peer.number("seconds", 60) * 1000L;
        for (int found = 0; found < count && System.currentTimeMillis() < endMs && !peer.stay(0); ) {
            List<MessageExt> messages = consumer.poll(POLL_MS);
            messages.forEach(say);
            found += messages.size();
        }
    }
}

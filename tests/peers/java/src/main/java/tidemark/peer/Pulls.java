package tidemark.peer;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * {@code pull}: a lite pull consumer of --group. With --assign true it takes all queues of the topic, else it subscribes and
 * shares them. It polls until --expect messages came or --seconds passed and commits. With --seek N it goes back to N in every
 * queue and polls --again messages. Lines {@code READY}, {@code M client queue offset reconsume key tag body}, {@code AGAIN queue
 * offset}, {@code COMMITTED queue offset}.
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
            consumer.assign(queues);
            for (MessageQueue queue : queues) consumer.seekToBegin(queue);
        }
        peer.say("READY");
        for (MessageExt m : polled(consumer, peer.number("expect", Integer.MAX_VALUE))) {
            peer.say("M", peer.option("instance", "one"), m.getQueueId(), m.getQueueOffset(), m.getReconsumeTimes(),
                    m.getKeys(), m.getTags(), new String(m.getBody(), "UTF-8"));
        }
        if (assigns) {
            commit(consumer, queues);
            for (MessageQueue queue : queues) consumer.seek(queue, peer.number("seek", 0));
            for (MessageExt m : polled(consumer, peer.number("again", 0))) {
                peer.say("AGAIN", m.getQueueId(), m.getQueueOffset());
            }
        }
        consumer.shutdown();
    }

    /** Until so many came, the time is over or this peer is to stop. */
    private List<MessageExt> polled(DefaultLitePullConsumer consumer, int count) throws Exception {
        List<MessageExt> found = new ArrayList<>();
        long endMs = System.currentTimeMillis() + peer.number("seconds", 60) * 1000L;
        while (found.size() < count && System.currentTimeMillis() < endMs && !peer.stay(0)) {
            found.addAll(consumer.poll(POLL_MS));
            if (!peer.option("assign", "false").equals("true")) consumer.commitSync();
        }
        return found;
    }

    private void commit(DefaultLitePullConsumer consumer, Collection<MessageQueue> queues) throws Exception {
        consumer.commitSync();
        for (MessageQueue queue : queues) peer.say("COMMITTED", queue.getQueueId(), consumer.committed(queue));
    }
}

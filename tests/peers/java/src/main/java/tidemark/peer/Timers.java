package tidemark.peer;

import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * {@code timed}: --count messages, of which the even ones are recalled; times by the three setters in turn, all due in --delay
 * seconds. Lines {@code SENT key dueMillis}, {@code RECALLED key uniqueKey key}, {@code FAILED key text}. The methods are found
 * by name: clients before 5.3.2 have no recall.
 */
final class Timers {
    private static final String[] SETTERS = {"setDeliverTimeMs", "setDelayTimeMs", "setDelayTimeSec"};
    private final Peer peer;

    Timers(Peer peer) {
        this.peer = peer;
    }

    void run() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("peer-timer");
        producer.setNamesrvAddr(peer.option("namesrv", ""));
        producer.setVipChannelEnabled(false);
        producer.start();
        String topic = peer.option("topic", "T");
        long delayMs = peer.number("delay", 5) * 1000L;
        for (int i = 0; i < peer.number("count", 6); i++) {
            String key = "k" + i;
            Message message = new Message(topic, "tag", key, ("body-" + i).getBytes(StandardCharsets.UTF_8));
            long now = System.currentTimeMillis();
            long[] values = {now + delayMs, delayMs, delayMs / 1000};
            Message.class.getMethod(SETTERS[i % 3], long.class).invoke(message, values[i % 3]);
            SendResult result = producer.send(message);
            peer.say("SENT", key, now + delayMs);
            if (i % 2 == 0) recall(producer, topic, key, result);
        }
        recallOf(producer, topic, "bad", "not a handle");
        producer.shutdown();
    }

    private void recall(DefaultMQProducer producer, String topic, String key, SendResult result) throws Exception {
        String handle = (String) SendResult.class.getMethod("getRecallHandle").invoke(result);
        recallOf(producer, topic, key, handle);
    }

    private void recallOf(DefaultMQProducer producer, String topic, String key, String handle) throws Exception {
        try {
            peer.say("RECALLED", key, DefaultMQProducer.class.getMethod("recallMessage", String.class, String.class)
                    .invoke(producer, topic, handle));
        } catch (InvocationTargetException e) {
            peer.say("FAILED", key, String.valueOf(e.getCause().getMessage()).replaceAll("\\s+", " "));
        }
    }
}

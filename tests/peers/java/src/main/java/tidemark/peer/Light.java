package tidemark.peer;

import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * {@code light}: --count messages with the property INNER_MULTI_DISPATCH=--queues, then what a group --group finds in each of
 * these light queues, as RocketMQ's guide to them does it. Lines {@code SENT n}, {@code RANGE queue min max},
 * {@code L queue key numbers}, {@code COMMITTED queue offset}. With --pop true it pops them instead, as {@link LightPop} says.
 */
final class Light {
    /** What needs classes of 5.x. */
    interface Popping {
        void pop(MQClientAPIImpl api, String broker, String address, String queue) throws Exception;
    }

    private final Peer peer;

    Light(Peer peer) {
        this.peer = peer;
    }

    @SuppressWarnings("deprecation")
    void run() throws Exception {
        String topic = peer.option("topic", "T");
        String broker = send(topic);
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(peer.option("group", "light"));
        consumer.setNamesrvAddr(peer.option("namesrv", ""));
        consumer.setVipChannelEnabled(false);
        consumer.start();
        MQClientInstance client = consumer.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory();
        client.updateTopicRouteInfoFromNameServer(topic);
        String[] queues = peer.option("queues", "").split(",");
        if (peer.option("pop", "false").equals("true")) {
            Popping popping = (Popping) Class.forName("tidemark.peer.LightPop").getDeclaredConstructor(Peer.class).newInstance(peer);
            String address = client.findBrokerAddressInPublish(broker);
            for (String name : queues) popping.pop(client.getMQClientAPIImpl(), broker, address, name);
        } else {
            for (String name : queues) read(consumer, new MessageQueue(name, broker, 0));
        }
        consumer.shutdown();
    }

    private String send(String topic) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("peer-light");
        producer.setNamesrvAddr(peer.option("namesrv", ""));
        producer.setVipChannelEnabled(false);
        producer.start();
        String broker = "";
        for (int i = 0; i < peer.number("count", 6); i++) {
            Message message = new Message(topic, "tag", "k" + i, ("body-" + i).getBytes(StandardCharsets.UTF_8));
            message.putUserProperty("INNER_MULTI_DISPATCH", peer.option("queues", ""));
            SendResult result = producer.send(message);
            broker = result.getMessageQueue().getBrokerName();
            peer.say("SENT", i);
        }
        producer.shutdown();
        return broker;
    }

    @SuppressWarnings("deprecation")
    private void read(DefaultMQPullConsumer consumer, MessageQueue queue) throws Exception {
        long end = consumer.maxOffset(queue);
        peer.say("RANGE", queue.getTopic(), consumer.minOffset(queue), end);
        for (long offset = 0; offset < end; ) {
            PullResult found = consumer.pullBlockIfNotFound(queue, "*", offset, 32);
            if (found.getPullStatus() != PullStatus.FOUND) throw new IllegalStateException(found.toString());
            for (MessageExt message : found.getMsgFoundList()) {
                peer.say("L", queue.getTopic(), message.getKeys(), message.getProperty("INNER_MULTI_QUEUE_OFFSET"));
            }
            offset = found.getNextBeginOffset();
        }
        try {
            consumer.getOffsetStore().updateConsumeOffsetToBroker(queue, end, false);
        } catch (MQBrokerException e) {
            peer.say("FAILED", Peer.oneLine(e));
        }
        peer.say("COMMITTED", queue.getTopic(), consumer.fetchConsumeOffset(queue, true));
    }
}

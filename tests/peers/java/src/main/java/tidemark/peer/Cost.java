package tidemark.peer;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * What the client itself costs, for tests/benchmark/client_cost.py: {@code COST cpu-microseconds millis} of all threads of the JVM, from
 * before the first message to behind the last. --mode sync|async|batch|oneway|push|pull, --count, --size, --threads (sync).
 */
final class Cost {
    private static final int BATCH = 20;
    private static final int IN_FLIGHT = 1024;
    private final Peer peer;
    private final String topic;
    private final int count;
    private final byte[] body;
    private final OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    private long beganCpu;
    private long began;

    Cost(Peer peer) {
        this.peer = peer;
        topic = peer.option("topic", "T");
        count = peer.number("count", 1);
        body = new byte[peer.number("size", 1024)];
        java.util.Arrays.fill(body, (byte) 'x');
    }

    void run() throws Exception {
        String mode = peer.option("mode", "sync");
        if (mode.equals("push")) push();
        else if (mode.equals("pull")) pull();
        else send(mode);
    }

    private void begin() {
        beganCpu = system.getProcessCpuTime();
        began = System.nanoTime();
    }

    private void end() {
        peer.say("COST", (system.getProcessCpuTime() - beganCpu) / 1000, (System.nanoTime() - began) / 1_000_000);
    }

    private Message message(int i) {
        return new Message(topic, null, "k" + i, body);
    }

    private void send(String mode) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("cost-producer");
        producer.setNamesrvAddr(peer.option("namesrv", ""));
        producer.setSendMsgTimeout(30_000);
        producer.setVipChannelEnabled(false);
        producer.start();
        producer.send(message(0));
        begin();
        switch (mode) {
            case "sync": sync(producer, peer.number("threads", 1)); break;
            case "async": async(producer); break;
            case "batch":
                for (int start = 0; start < count; start += BATCH) {
                    List<Message> batch = new ArrayList<>();
                    for (int i = 0; i < BATCH; i++) batch.add(message(start + i));
                    producer.send(batch);
                }
                break;
            default:
                for (int i = 0; i < count; i++) producer.sendOneway(message(i));
                producer.send(message(count)); // behind them on the connection
        }
        end();
        producer.shutdown();
    }

    private void sync(DefaultMQProducer producer, int threads) throws Exception {
        AtomicInteger next = new AtomicInteger();
        Thread[] workers = new Thread[threads];
        for (int t = 0; t < threads; t++) {
            workers[t] = new Thread(() -> {
                try {
                    for (int i = next.getAndIncrement(); i < count; i = next.getAndIncrement()) producer.send(message(i));
                } catch (Exception e) {
                    peer.say("FAILED", Peer.oneLine(e));
                }
            });
            workers[t].start();
        }
        for (Thread worker : workers) worker.join();
    }

    private void async(DefaultMQProducer producer) throws Exception {
        Semaphore room = new Semaphore(IN_FLIGHT);
        for (int i = 0; i < count; i++) {
            room.acquire();
            producer.send(message(i), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    room.release();
                }

                @Override
                public void onException(Throwable e) {
                    peer.say("FAILED", Peer.oneLine(e));
                    room.release();
                }
            });
        }
        room.acquire(IN_FLIGHT);
    }

    private void push() throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(peer.option("group", "cost"));
        consumer.setNamesrvAddr(peer.option("namesrv", ""));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setVipChannelEnabled(false);
        consumer.subscribe(topic, "*");
        AtomicInteger seen = new AtomicInteger();
        CountDownLatch done = new CountDownLatch(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            if (seen.addAndGet(messages.size()) >= count) done.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        begin();
        consumer.start();
        done.await();
        end();
        consumer.shutdown();
    }

    private void pull() throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(peer.option("group", "cost"));
        consumer.setNamesrvAddr(peer.option("namesrv", ""));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setVipChannelEnabled(false);
        consumer.setPullBatchSize(32);
        consumer.subscribe(topic, "*");
        begin();
        consumer.start();
        int seen = 0;
        while (seen < count) seen += consumer.poll().size();
        end();
        consumer.shutdown();
    }
}

package tidemark.peer;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Produces or consumes with the official client and reports on standard output, one tab-separated line a thing:
 * {@code READY}, {@code SENT n millis}, {@code FAILED text}, {@code M client queue offset reconsume key tag body}.
 */
public final class Peer {
    private final Map<String, String> options = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        Peer peer = new Peer();
        for (int i = 1; i + 1 < arguments.length; i += 2) {
            peer.options.put(arguments[i].substring(2), arguments[i + 1]);
        }
        switch (arguments[0]) {
            case "produce": peer.produce(); break;
            case "consume": peer.consume(); break;
            case "transact": new Transactions(peer).run(); break;
            case "timed": new Timers(peer).run(); break;
            case "request": new Requests(peer).request(); break;
            case "reply": new Requests(peer).reply(); break;
            default: throw new IllegalArgumentException("no such peer: " + arguments[0]);
        }
    }

    String option(String name, String otherwise) {
        return options.getOrDefault(name, otherwise);
    }

    int number(String name, int otherwise) {
        return Integer.parseInt(option(name, Integer.toString(otherwise)));
    }

    static synchronized void say(Object... columns) {
        StringBuilder line = new StringBuilder();
        for (Object column : columns) {
            if (line.length() > 0) line.append('\t');
            line.append(column);
        }
        System.out.println(line);
        System.out.flush();
    }

    /** --mode sync|batch|oneway|ordered, --count, --threads, --size bytes, --tags a,b: keys are k0 … k(count-1). */
    private void produce() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(option("group", "peer-producer"));
        producer.setNamesrvAddr(option("namesrv", ""));
        producer.setSendMsgTimeout(number("timeout", 5000));
        producer.setRetryTimesWhenSendFailed(number("retries", 5));
        producer.setVipChannelEnabled(false);
        producer.start();
        int count = number("count", 1);
        int threads = number("threads", 1);
        AtomicInteger next = new AtomicInteger();
        AtomicInteger sent = new AtomicInteger();
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        CountDownLatch done = new CountDownLatch(threads);
        long started = System.nanoTime();
        for (int t = 0; t < threads; t++) {
            pool.execute(() -> {
                try {
                    sendShare(producer, next, sent, count);
                } finally {
                    done.countDown();
                }
            });
        }
        done.await();
        say("SENT", sent.get(), TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - started));
        pool.shutdown();
        producer.shutdown();
    }

    private void sendShare(DefaultMQProducer producer, AtomicInteger next, AtomicInteger sent, int count) {
        String mode = option("mode", "sync");
        int step = mode.equals("batch") ? 20 : 1;
        while (true) {
            int from = next.getAndAdd(step);
            if (from >= count) return;
            try {
                send(producer, mode, from, Math.min(count, from + step));
                sent.addAndGet(Math.min(count, from + step) - from);
                if (number("pause", 0) > 0) Thread.sleep(number("pause", 0));
            } catch (Exception e) {
                say("FAILED", from, String.valueOf(e.getMessage()).replace('\n', ' ').replace('\t', ' '));
            }
        }
    }

    private void send(DefaultMQProducer producer, String mode, int from, int to) throws Exception {
        if (mode.equals("oneway")) {
            producer.sendOneway(message(from));
            return;
        }
        SendResult result;
        if (mode.equals("batch")) {
            List<Message> batch = new ArrayList<>();
            for (int i = from; i < to; i++) batch.add(message(i));
            result = producer.send(batch);
        } else if (mode.equals("ordered")) {
            int shards = number("shards", 8);
            result = producer.send(message(from), (queues, m, shard) -> queues.get((Integer) shard % queues.size()),
                    from % shards);
        } else {
            result = producer.send(message(from));
        }
        if (result.getSendStatus() != SendStatus.SEND_OK) throw new IllegalStateException(result.toString());
    }

    private Message message(int i) {
        String[] tags = option("tags", "").isEmpty() ? null : option("tags", "").split(",");
        StringBuilder body = new StringBuilder("body-").append(i).append(' ');
        while (body.length() < number("size", 0)) body.append((char) ('a' + body.length() % 26));
        Message message = new Message(option("topic", "T"), tags == null ? null : tags[i % tags.length], "k" + i,
                body.toString().getBytes(StandardCharsets.UTF_8));
        message.putUserProperty("n", String.valueOf(i));
        if (!option("delay", "").isEmpty()) message.setDelayTimeLevel(number("delay", 0));
        return message;
    }

    /**
     * Until --expect different keys were consumed, or --seconds passed. --fail-key: that key fails each time. --quiet true: no M lines.
     * --model BROADCASTING: every message, with offsets of its own. --work: milliseconds for each message.
     * --broker-assigns true (5.x): asks the broker what to read, which is how a group set to POP comes to pop.
     */
    private void consume() throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(option("group", "peer"));
        consumer.setNamesrvAddr(option("namesrv", ""));
        consumer.setInstanceName(option("instance", "one"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setVipChannelEnabled(false);
        consumer.setConsumeThreadMin(number("threads", 8));
        consumer.setConsumeThreadMax(number("threads", 8));
        consumer.setConsumeMessageBatchMaxSize(number("batch", 1));
        consumer.setPullInterval(number("pull-interval", 0));
        if (option("broker-assigns", "false").equals("true")) {
            // By its name: 4.9 has no such setting, and this source is compiled against it too.
            consumer.getClass().getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
        }
        // Its enum lies in another package in each release.
        String model = option("model", consumer.getMessageModel().name());
        consumer.setMessageModel(Enum.valueOf(consumer.getMessageModel().getDeclaringClass(), model));
        if (number("max-reconsume", -1) >= 0) consumer.setMaxReconsumeTimes(number("max-reconsume", -1));
        if (option("sql", "").isEmpty()) consumer.subscribe(option("topic", "T"), option("filter", "*"));
        else consumer.subscribe(option("topic", "T"), MessageSelector.bySql(option("sql", "")));
        Map<String, Boolean> seen = new ConcurrentHashMap<>();
        CountDownLatch enough = new CountDownLatch(1);
        int expect = number("expect", Integer.MAX_VALUE);
        if (option("orderly", "false").equals("true")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                for (MessageExt m : messages) handle(m, seen, enough, expect);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener(new MessageListenerConcurrently() {
                @Override
                public ConsumeConcurrentlyStatus consumeMessage(List<MessageExt> messages, ConsumeConcurrentlyContext context) {
                    boolean well = true;
                    for (MessageExt m : messages) well &= handle(m, seen, enough, expect);
                    if (well) return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                    context.setDelayLevelWhenNextConsume(number("retry-level", 1));
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
            });
        }
        Thread stopper = new Thread(consumer::shutdown);
        Runtime.getRuntime().addShutdownHook(stopper);
        try {
            consumer.start();
        } catch (Exception e) {
            say("FAILED", String.valueOf(e.getMessage()).replace('\n', ' ').replace('\t', ' '));
            System.exit(1); // 4.9 leaves threads behind
        }
        say("READY");
        enough.await(number("seconds", 60), TimeUnit.SECONDS);
        say("DONE", seen.size());
        System.exit(0);
    }

    private boolean handle(MessageExt m, Map<String, Boolean> seen, CountDownLatch enough, int expect) {
        boolean well = !option("fail-key", "").equals(m.getKeys());
        if (number("work", 0) > 0) {
            try {
                Thread.sleep(number("work", 0));
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
        if (!option("quiet", "false").equals("true")) {
            say("M", option("instance", "one"), m.getQueueId(), m.getQueueOffset(), m.getReconsumeTimes(), m.getKeys(),
                    m.getTags(), new String(m.getBody(), StandardCharsets.UTF_8));
        }
        if (well) seen.put(m.getKeys(), true);
        if (seen.size() >= expect) enough.countDown();
        return well;
    }
}

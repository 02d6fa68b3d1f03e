package tidemark.peer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Produces or consumes with the official client. Any number of peers live in one JVM, as most of a short one's cost is its
 * start: tab-separated lines on standard input begin one, {@code number command --option value …}, and stop one,
 * {@code number stop}. Their lines on standard output begin with their number: {@code READY}, {@code SENT n millis},
 * {@code FAILED text}, {@code M client queue offset reconsume key tag body}; the last is {@code END} with 0, or 1 after an
 * exception. The end of the input ends the JVM.
 */
public final class Peer implements Runnable {
    /** As it is at first: mqadmin writes to another one. */
    private static final PrintStream OUTPUT = System.out;
    private final String number;
    private final String command;
    private final Map<String, String> options = new HashMap<>();
    private static final int IN_FLIGHT = 256;
    private final CountDownLatch stopped = new CountDownLatch(1);
    private final Semaphore inFlight = new Semaphore(IN_FLIGHT);

    private Peer(String[] words) {
        number = words[0];
        command = words[1];
        for (int i = 2; i + 1 < words.length; i += 2) options.put(words[i].substring(2), words[i + 1]);
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Peer> peers = new HashMap<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = input.readLine()) != null; ) {
            String[] words = line.split("\t", -1);
            if (words[1].equals("stop")) {
                peers.get(words[0]).stopped.countDown();
            } else {
                Peer peer = new Peer(words);
                peers.put(words[0], peer);
                new Thread(peer, "peer-" + words[0]).start();
            }
        }
        System.exit(0);
    }

    @Override
    public void run() {
        try {
            switch (command) {
                case "produce": produce(); break;
                case "consume": consume(); break;
                case "transact": new Transactions(this).run(); break;
                case "timed": new Timers(this).run(); break;
                case "light": new Light(this).run(); break;
                case "pull": new Pulls(this).run(); break;
                case "request": new Requests(this).request(); break;
                case "reply": new Requests(this).reply(); break;
                case "signed": new Signed(this).run(); break;
                case "tools": new Signed(this).tools(); break;
                case "cost": new Cost(this).run(); break;
                default: throw new IllegalArgumentException("no such peer: " + command);
            }
            say("END", 0);
        } catch (Throwable e) {
            say("FAILED", oneLine(e));
            say("END", 1);
        }
    }

    /** Wait so many seconds, or until it is to stop; returns whether it is. */
    boolean stay(int seconds) throws InterruptedException {
        return stopped.await(seconds, TimeUnit.SECONDS);
    }

    static String oneLine(Throwable e) {
        return String.valueOf(e.getMessage()).replace('\n', ' ').replace('\t', ' ');
    }

    String option(String name, String otherwise) {
        return options.getOrDefault(name, otherwise);
    }

    int number(String name, int otherwise) {
        return Integer.parseInt(option(name, Integer.toString(otherwise)));
    }

    void say(Object... columns) {
        StringBuilder line = new StringBuilder(number);
        for (Object column : columns) line.append('\t').append(column);
        synchronized (Peer.class) {
            OUTPUT.println(line);
            OUTPUT.flush();
        }
    }

    /** --mode sync|async|batch|oneway|ordered, --count, --threads, --size bytes, --tags a,b, --namespace: keys are k0 … k(count-1). */
    private void produce() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(option("group", "peer-producer"));
        producer.setNamesrvAddr(option("namesrv", ""));
        if (!option("namespace", "").isEmpty()) producer.setNamespace(option("namespace", ""));
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
        inFlight.acquire(IN_FLIGHT);
        say("SENT", sent.get(), TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - started));
        pool.shutdown();
        producer.shutdown();
    }

    private void sendShare(DefaultMQProducer producer, AtomicInteger next, AtomicInteger sent, int count) {
        String mode = option("mode", "sync");
        int step = mode.equals("batch") ? number("batch", 20) : 1;
        while (true) {
            int from = next.getAndAdd(step);
            if (from >= count || stopped.getCount() == 0) return;
            try {
                send(producer, mode, from, Math.min(count, from + step));
                sent.addAndGet(Math.min(count, from + step) - from);
                if (number("pause", 0) > 0) Thread.sleep(number("pause", 0));
            } catch (Exception e) {
                say("FAILED", from, oneLine(e));
            }
        }
    }

    private void send(DefaultMQProducer producer, String mode, int from, int to) throws Exception {
        if (mode.equals("oneway")) {
            producer.sendOneway(message(from));
            return;
        }
        if (mode.equals("async")) {
            sendAsync(producer, message(from));
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

    /** At most 256 wait for their answers. */
    private void sendAsync(DefaultMQProducer producer, Message message) throws Exception {
        inFlight.acquire();
        producer.send(message, new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                inFlight.release();
            }

            @Override
            public void onException(Throwable e) {
                inFlight.release();
                say("FAILED", message.getKeys(), oneLine(e));
            }
        });
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
     * --namespace: that of topic and group. --model BROADCASTING: every message, with offsets of its own. --work: milliseconds for each message.
     * --from CONSUME_FROM_LAST_OFFSET, or CONSUME_FROM_TIMESTAMP with --since yyyyMMddHHmmss.
     * --broker-assigns true (5.x): asks the broker what to read, which is how a group set to POP comes to pop.
     */
    private void consume() throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(option("group", "peer"),
                Signed.hook(option("access-key", "-"), option("secret-key", "")), new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(option("namesrv", ""));
        if (!option("namespace", "").isEmpty()) consumer.setNamespace(option("namespace", ""));
        consumer.setInstanceName(option("instance", "one"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.valueOf(option("from", "CONSUME_FROM_FIRST_OFFSET")));
        if (!option("since", "").isEmpty()) consumer.setConsumeTimestamp(option("since", ""));
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
        int expect = number("expect", Integer.MAX_VALUE);
        if (option("orderly", "false").equals("true")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                for (MessageExt m : messages) handle(m, seen, expect);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener(new MessageListenerConcurrently() {
                @Override
                public ConsumeConcurrentlyStatus consumeMessage(List<MessageExt> messages, ConsumeConcurrentlyContext context) {
                    boolean well = true;
                    for (MessageExt m : messages) well &= handle(m, seen, expect);
                    if (well) return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                    context.setDelayLevelWhenNextConsume(number("retry-level", 1));
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
            });
        }
        consumer.start();
        say("READY");
        if (!stay(number("seconds", 60)) || seen.size() >= expect) say("DONE", seen.size());
        consumer.shutdown();
    }

    private boolean handle(MessageExt m, Map<String, Boolean> seen, int expect) {
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
        if (seen.size() >= expect) stopped.countDown();
        return well;
    }
}

package tidemark.peer;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Signed requests. {@code signed}: --attempts, separated by commas, each {@code send KEY SECRET TOPIC} or
 * {@code pull KEY SECRET GROUP TOPIC} (no key: {@code -}); lines {@code DONE n result}, {@code FAILED n text}. {@code tools}:
 * mqadmin's --lines, separated by {@code ;;}; lines {@code OUT n text}. One at a time: mqadmin writes to standard output.
 */
final class Signed {
    private final Peer peer;

    Signed(Peer peer) {
        this.peer = peer;
    }

    static RPCHook hook(String accessKey, String secretKey) {
        return accessKey.equals("-") ? null : new AclClientRPCHook(new SessionCredentials(accessKey, secretKey));
    }

    void run() {
        String[] attempts = peer.option("attempts", "").split(",");
        for (int i = 0; i < attempts.length; i++) {
            String[] words = attempts[i].trim().split(" ");
            try {
                peer.say("DONE", i, words[0].equals("send") ? send(i, words) : pull(i, words));
            } catch (Exception e) {
                // The broker's answer is what the producer's own exception was caused by.
                peer.say("FAILED", i, Peer.oneLine(e.getCause() == null ? e : e.getCause()));
            }
        }
    }

    private Object send(int i, String[] words) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("signed-" + i, hook(words[1], words[2]));
        producer.setNamesrvAddr(peer.option("namesrv", ""));
        producer.setInstanceName("signed-" + System.nanoTime()); // a client signs for all that share its instance
        producer.setVipChannelEnabled(false);
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        try {
            Message message = new Message(words[3], "tag", "k" + i, ("body-" + i).getBytes(StandardCharsets.UTF_8));
            return producer.send(message).getSendStatus();
        } finally {
            producer.shutdown();
        }
    }

    private Object pull(int i, String[] words) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(words[3], hook(words[1], words[2]));
        consumer.setNamesrvAddr(peer.option("namesrv", ""));
        consumer.setInstanceName("signed-" + System.nanoTime());
        consumer.setVipChannelEnabled(false);
        consumer.start();
        try {
            int found = 0;
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(words[4])) {
                PullResult result = consumer.pull(queue, "*", 0, 32);
                found += result.getMsgFoundList() == null ? 0 : result.getMsgFoundList().size();
            }
            return found;
        } finally {
            consumer.shutdown();
        }
    }

    void tools() {
        String[] lines = peer.option("lines", "").split(";;");
        for (int i = 0; i < lines.length; i++) {
            for (String line : written(lines[i].trim().split(" ")).split("\n")) {
                peer.say("OUT", i, line.replace('\t', ' ').replace('\r', ' '));
            }
        }
    }

    private static synchronized String written(String[] command) {
        ByteArrayOutputStream written = new ByteArrayOutputStream();
        PrintStream output = System.out;
        PrintStream errors = System.err;
        System.setOut(new PrintStream(written, true));
        System.setErr(System.out);
        try {
            MQAdminStartup.main(command);
        } finally {
            System.setOut(output);
            System.setErr(errors);
        }
        return new String(written.toByteArray(), StandardCharsets.UTF_8);
    }
}

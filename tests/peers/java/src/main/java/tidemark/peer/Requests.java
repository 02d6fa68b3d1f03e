package tidemark.peer;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Request-reply. {@code request}: --count requests, --timeout millis each; lines {@code REPLY n body}, {@code FAILED n text}.
 * {@code reply}: answers each message with "re: " and its body, repeated up to --size bytes, for --seconds; lines
 * {@code REPLIED key id}, {@code FAILED key text}.
 */
final class Requests {
    private final Peer peer;

    Requests(Peer peer) {
        this.peer = peer;
    }

    void request() throws Exception {
        DefaultMQProducer producer = producer("peer-requester");
        for (int i = 0; i < peer.number("count", 1); i++) {
            Message message = new Message(peer.option("topic", "T"), "tag", "k" + i,
                    ("body-" + i).getBytes(StandardCharsets.UTF_8));
            CompletableFuture<Message> reply = new CompletableFuture<>();
            // With a callback: in 5.3.3 the blocking form ends, without reply, as soon as the request is stored.
            producer.request(message, new RequestCallback() {
                @Override
                public void onSuccess(Message message) {
                    // 5.3.3 calls it without a message when the request is stored, and again with the reply.
                    if (message != null) reply.complete(message);
                }

                @Override
                public void onException(Throwable e) {
                    reply.completeExceptionally(e);
                }
            }, peer.number("timeout", 20_000));
            try {
                peer.say("REPLY", i, new String(reply.get().getBody(), StandardCharsets.UTF_8));
            } catch (ExecutionException e) {
                failed(i, e);
            }
        }
        producer.shutdown();
    }

    void reply() throws Exception {
        DefaultMQProducer producer = producer("peer-replier");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(peer.option("group", "peer"));
        consumer.setNamesrvAddr(peer.option("namesrv", ""));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setVipChannelEnabled(false);
        consumer.subscribe(peer.option("topic", "T"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt m : messages) answer(producer, m);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        peer.say("READY");
        peer.stay(peer.number("seconds", 60));
        consumer.shutdown();
        producer.shutdown();
    }

    private void answer(DefaultMQProducer producer, MessageExt message) {
        try {
            StringBuilder body = new StringBuilder("re: ").append(new String(message.getBody(), StandardCharsets.UTF_8));
            while (body.length() < peer.number("size", 0)) body.append('.');
            Message reply = MessageUtil.createReplyMessage(message, body.toString().getBytes(StandardCharsets.UTF_8));
            SendResult result = producer.send(reply, peer.number("timeout", 20_000));
            peer.say("REPLIED", message.getKeys(), result.getOffsetMsgId());
        } catch (Exception e) {
            failed(message.getKeys(), e);
        }
    }

    private DefaultMQProducer producer(String group) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(peer.option("namesrv", ""));
        producer.setVipChannelEnabled(false);
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        return producer;
    }

    private void failed(Object what, Exception e) {
        Throwable why = e.getCause() == null ? e : e.getCause();
        peer.say("FAILED", what, String.valueOf(why.getMessage()).replace('\n', ' ').replace('\t', ' '));
    }
}

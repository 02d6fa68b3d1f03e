package tidemark.peer;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.AckCallback;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.PopCallback;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;

/**
 * Pops of a light queue by the client's own calls; no consumer of it can subscribe to one, which has no route. 5.x alone has POP:
 * this class is not compiled against 4.9, and {@link Light} finds it by its name.
 */
final class LightPop implements Light.Popping {
    private static final int ANSWER_MS = 30_000;
    private final Peer peer;

    LightPop(Peer peer) {
        this.peer = peer;
    }

    /**
     * Pop and acknowledge what is found, but not the first time of a key --fail-key; once more behind its second time, or behind
     * --rounds pops, or --seconds. Each waits up to --poll milliseconds. Lines {@code POPPED queue status count},
     * {@code P queue key number reconsumed}, {@code ACKED queue key status}.
     */
    @Override
    public void pop(MQClientAPIImpl api, String broker, String address, String queue) throws Exception {
        String group = peer.option("group", "light");
        String failing = peer.option("fail-key", "");
        int rounds = peer.number("rounds", Integer.MAX_VALUE);
        long endMs = System.currentTimeMillis() + peer.number("seconds", 60) * 1000L;
        for (int times = 0; rounds > 0 && System.currentTimeMillis() < endMs; rounds--) {
            if (times > 1) rounds = 1;
            PopResult result = popped(api, broker, address, queue, group);
            List<MessageExt> found = result.getMsgFoundList() == null ? new ArrayList<>() : result.getMsgFoundList();
            peer.say("POPPED", queue, result.getPopStatus(), found.size());
            for (MessageExt message : found) {
                String handle = message.getProperty(MessageConst.PROPERTY_POP_CK);
                long number = ExtraInfoUtil.getQueueOffset(ExtraInfoUtil.split(handle));
                peer.say("P", queue, message.getKeys(), number, message.getReconsumeTimes());
                if (message.getKeys().equals(failing) && ++times == 1) continue;
                peer.say("ACKED", queue, message.getKeys(), ack(api, address, group, queue, handle));
            }
        }
    }

    private PopResult popped(MQClientAPIImpl api, String broker, String address, String queue, String group) throws Exception {
        PopMessageRequestHeader header = new PopMessageRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(queue);
        header.setQueueId(-1);
        header.setMaxMsgNums(32);
        header.setInvisibleTime(peer.number("invisible", 3_000));
        header.setPollTime(peer.number("poll", 1_000));
        header.setBornTime(System.currentTimeMillis());
        header.setInitMode(0);
        header.setExpType("TAG");
        header.setExp("*");
        header.setOrder(false);
        CompletableFuture<PopResult> done = new CompletableFuture<>();
        api.popMessageAsync(broker, address, header, ANSWER_MS, new PopCallback() {
            @Override
            public void onSuccess(PopResult result) {
                done.complete(result);
            }

            @Override
            public void onException(Throwable e) {
                done.completeExceptionally(e);
            }
        });
        return done.get(ANSWER_MS, TimeUnit.MILLISECONDS);
    }

    private Object ack(MQClientAPIImpl api, String address, String group, String queue, String handle) throws Exception {
        String[] parts = ExtraInfoUtil.split(handle);
        AckMessageRequestHeader header = new AckMessageRequestHeader();
        header.setTopic(ExtraInfoUtil.getRealTopic(parts, queue, group));
        header.setQueueId(ExtraInfoUtil.getQueueId(parts));
        header.setOffset(ExtraInfoUtil.getQueueOffset(parts));
        header.setConsumerGroup(group);
        header.setExtraInfo(handle);
        CompletableFuture<AckResult> done = new CompletableFuture<>();
        api.ackMessageAsync(address, ANSWER_MS, new AckCallback() {
            @Override
            public void onSuccess(AckResult result) {
                done.complete(result);
            }

            @Override
            public void onException(Throwable e) {
                done.completeExceptionally(e);
            }
        }, header);
        return done.get(ANSWER_MS, TimeUnit.MILLISECONDS).getStatus();
    }
}

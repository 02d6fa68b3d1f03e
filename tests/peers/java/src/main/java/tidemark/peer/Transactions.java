package tidemark.peer;

import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends messages in transactions: --count, --decisions commit,rollback,unknown by turns, --answers to checks by the
 * message's number, --immunity seconds, --seconds to stay. Lines: {@code BEGUN key state}, {@code CHECKED key times topic}.
 */
final class Transactions implements TransactionListener {
    private final Peer peer;

    Transactions(Peer peer) {
        this.peer = peer;
    }

    void run() throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(peer.option("group", "peer-transactions"));
        producer.setNamesrvAddr(peer.option("namesrv", ""));
        producer.setSendMsgTimeout(peer.number("timeout", 5000));
        producer.setVipChannelEnabled(false);
        producer.setTransactionListener(this);
        producer.start();
        for (int i = 0; i < peer.number("count", 1); i++) {
            try {
                TransactionSendResult result = producer.sendMessageInTransaction(message(i), null);
                peer.say("BEGUN", "k" + i, result.getLocalTransactionState());
            } catch (Exception e) {
                peer.say("FAILED", i, String.valueOf(e.getMessage()).replace('\n', ' ').replace('\t', ' '));
            }
        }
        peer.say("READY");
        peer.stay(peer.number("seconds", 1));
        producer.shutdown();
    }

    private Message message(int i) {
        Message message = new Message(peer.option("topic", "T"), "tag", "k" + i,
                ("body-" + i).getBytes(StandardCharsets.UTF_8));
        message.putUserProperty("n", String.valueOf(i));
        String immunity = peer.option("immunity", "");
        if (!immunity.isEmpty()) message.putUserProperty("CHECK_IMMUNITY_TIME_IN_SECONDS", immunity);
        return message;
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
        return state(peer.option("decisions", "commit"), message);
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        peer.say("CHECKED", message.getKeys(), message.getUserProperty("TRANSACTION_CHECK_TIMES"), message.getTopic());
        return state(peer.option("answers", "unknown"), message);
    }

    private static LocalTransactionState state(String choices, Message message) {
        String[] each = choices.split(",");
        switch (each[Integer.parseInt(message.getUserProperty("n")) % each.length]) {
            case "commit": return LocalTransactionState.COMMIT_MESSAGE;
            case "rollback": return LocalTransactionState.ROLLBACK_MESSAGE;
            default: return LocalTransactionState.UNKNOW;
        }
    }
}

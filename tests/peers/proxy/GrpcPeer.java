import java.util.Collections;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.producer.Producer;

/** A push consumer of the gRPC client: {@code endpoints topic group tag}. It sends a message of the tag too, to itself or
 *  another member. Prints READY, and CONSUMED for each message; ends in order when its input does. */
public final class GrpcPeer {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        String tag = arguments[3];
        ClientServiceProvider provider = ClientServiceProvider.loadService();
        ClientConfiguration configuration =
            ClientConfiguration.newBuilder().setEndpoints(arguments[0]).enableSsl(false).build();
        PushConsumer consumer = provider.newPushConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup(arguments[2])
            .setSubscriptionExpressions(
                Collections.singletonMap(topic, new FilterExpression(tag, FilterExpressionType.TAG)))
            .setMessageListener(message -> {
                say("CONSUMED");
                return ConsumeResult.SUCCESS;
            })
            .build();
        Producer producer = provider.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build();
        producer.send(provider.newMessageBuilder().setTopic(topic).setTag(tag).setBody(new byte[] {'m'}).build());
        say("READY");
        while (System.in.read() >= 0) {
        }
        producer.close();
        consumer.close();
        System.exit(0);
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}

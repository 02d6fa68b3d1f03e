import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/** Prints what each member of a group allocates itself, by every strategy of the Java client, as JSON. */
public class Vectors {
  static String room(String name) {
    int at = name.indexOf('@');
    return at < 0 ? "" : name.substring(0, at);
  }

  public static void main(String[] args) throws Exception {
    Map<String, AllocateMessageQueueStrategy> strategies = new LinkedHashMap<>();
    strategies.put("AVG", new AllocateMessageQueueAveragely());
    strategies.put("AVG_BY_CIRCLE", new AllocateMessageQueueAveragelyByCircle());
    strategies.put("CONSISTENT_HASH", new AllocateMessageQueueConsistentHash());
    AllocateMessageQueueByMachineRoom byRoom = new AllocateMessageQueueByMachineRoom();
    byRoom.setConsumeridcs(new TreeSet<>(List.of("r1", "r2")));
    strategies.put("MACHINE_ROOM", byRoom);
    strategies.put("MACHINE_ROOM_NEARBY", new AllocateMachineRoomNearby(
        new AllocateMessageQueueAveragely(),
        new AllocateMachineRoomNearby.MachineRoomResolver() {
          public String brokerDeployIn(MessageQueue queue) { return room(queue.getBrokerName()); }
          public String consumerDeployIn(String clientId) { return room(clientId); }
        }));
    String[][] brokerSets = {{"r1@a"}, {"r1@a", "r2@b"}, {"r1@a", "r2@b", "r3@c"}, {"r2@a", "r4@b"}};
    String[][] memberSets = {
      {"r1@10.0.0.1#7"},
      {"r1@10.0.0.1#7", "r2@10.0.0.2#7"},
      {"r1@10.0.0.1#7", "r1@10.0.0.3#9", "r2@10.0.0.2#7"},
      {"r1@10.0.0.1#7", "r1@10.0.0.3#9", "r2@10.0.0.2#7", "r2@10.0.0.4#1", "r5@10.0.0.5#2"}};
    List<String> lines = new ArrayList<>();
    for (String[] brokers : brokerSets)
      for (int each : new int[] {1, 3, 8})
        for (String[] members : memberSets) {
          List<MessageQueue> queues = new ArrayList<>();
          for (String broker : brokers) for (int id = 0; id < each; id++) queues.add(new MessageQueue("T", broker, id));
          Collections.sort(queues);
          List<String> ids = new ArrayList<>(List.of(members));
          Collections.sort(ids);
          for (Map.Entry<String, AllocateMessageQueueStrategy> one : strategies.entrySet()) {
            List<String> shares = new ArrayList<>();
            for (String id : ids) {
              List<String> share = new ArrayList<>();
              for (MessageQueue queue : one.getValue().allocate("G", id, queues, ids))
                share.add("\"" + queue.getBrokerName() + ":" + queue.getQueueId() + "\"");
              shares.add("\"" + id + "\": [" + String.join(", ", share) + "]");
            }
            lines.add("{\"strategy\": \"" + one.getKey() + "\", \"queues_each\": " + each + ", \"brokers\": [\""
                + String.join("\", \"", brokers) + "\"], \"shares\": {" + String.join(", ", shares) + "}}");
          }
        }
    System.out.println("[\n" + String.join(",\n", lines) + "\n]");
  }
}

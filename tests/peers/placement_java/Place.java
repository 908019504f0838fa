import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import kafka.admin.AdminUtils$;
import kafka.admin.BrokerMetadata;
import scala.Option;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Places replicas with Kafka's AdminUtils.
 *
 * A line of input is: seed, partitions, factor, fixed start (-1: none), first partition (-1: 0), and
 * brokers as id:rack with commas, the rack empty where a broker has none. The answer is the start index
 * and the shift that the seed gives, then the replicas of each partition in order; or the error's text.
 */
public class Place {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            long seed = Long.parseLong(words[0]);
            List<BrokerMetadata> brokers = new ArrayList<>();
            for (String broker : words[5].split(",")) {
                String[] parts = broker.split(":", 2);
                Option<String> rack = Option.apply(parts[1].isEmpty() ? null : parts[1]);
                brokers.add(new BrokerMetadata(Integer.parseInt(parts[0]), rack));
            }
            try {
                AdminUtils$.MODULE$.rand().setSeed(seed);
                scala.collection.Map<Object, Seq<Object>> placed =
                    AdminUtils$.MODULE$.assignReplicasToBrokers(
                        CollectionConverters.asScala(brokers),
                        Integer.parseInt(words[1]), Integer.parseInt(words[2]),
                        Integer.parseInt(words[3]), Integer.parseInt(words[4]));
                Random drawn = new Random(seed);
                StringBuilder answer = new StringBuilder();
                answer.append(drawn.nextInt(brokers.size())).append(' ');
                answer.append(drawn.nextInt(brokers.size()));
                Map<Object, Seq<Object>> sorted = new TreeMap<>(CollectionConverters.asJava(placed));
                for (Map.Entry<Object, Seq<Object>> entry : sorted.entrySet()) {
                    answer.append(' ').append(entry.getKey()).append(':');
                    answer.append(entry.getValue().mkString(","));
                }
                System.out.println(answer);
            } catch (RuntimeException error) {
                System.out.println("error " + error.getMessage());
            }
        }
    }
}

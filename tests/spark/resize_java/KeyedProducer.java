import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.FileOutputStream;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * An idempotent producer that numbers the records of each key, and notes every outcome itself.
 *
 * Arguments: bootstrap servers, topic, keys, records at first (as fast as it goes), records per second
 * afterwards, the file of outcomes, settings of the producer as name=value. Key and value are numbers.
 * It says "filled" when the first records are acknowledged, goes on until its input ends, and prints the
 * errors that records have failed with, and how often. The file has three ints for each record: key,
 * number, and 1 for acknowledged or 0 for failed. They are written when the producer says so.
 */
public class KeyedProducer {
    static final TreeMap<String, Integer> failures = new TreeMap<>();
    static DataOutputStream outcomes;

    static synchronized void note(int key, int number, Exception error) {
        try {
            outcomes.writeInt(key);
            outcomes.writeInt(number);
            outcomes.writeInt(error == null ? 1 : 0);
        } catch (java.io.IOException broken) {
            System.err.println(broken);
            Runtime.getRuntime().halt(3);
        }
        if (error != null) {
            failures.merge(error.getClass().getSimpleName(), 1, Integer::sum);
        }
    }

    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int keys = Integer.parseInt(args[2]);
        int first = Integer.parseInt(args[3]);
        double rate = Double.parseDouble(args[4]);
        outcomes = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(args[5]), 1 << 16));
        Properties settings = new Properties();
        settings.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, "true");
        settings.put(ProducerConfig.ACKS_CONFIG, "all");
        settings.put(ProducerConfig.LINGER_MS_CONFIG, "5");
        settings.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, StringSerializer.class.getName());
        settings.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, StringSerializer.class.getName());
        for (int i = 6; i < args.length; i++) {
            String[] setting = args[i].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        int[] numbers = new int[keys];
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings);
        long sent = 0;
        while (sent < first) {
            send(producer, topic, numbers, (int) (sent++ % keys));
        }
        producer.flush();
        System.out.println("filled");
        System.out.flush();
        long began = System.nanoTime();
        long since = 0;
        while (System.in.available() == 0) {
            double due = (System.nanoTime() - began) / 1e9 * rate;
            while (since < due) {
                since++;
                send(producer, topic, numbers, (int) (sent++ % keys));
            }
            Thread.sleep(5);
        }
        producer.close();
        outcomes.close();
        System.out.println("sent " + sent);
        for (String name : failures.keySet()) {
            System.out.println("failed " + name + " " + failures.get(name));
        }
    }

    static void send(KafkaProducer<String, String> producer, String topic, int[] numbers, int key) {
        int number = numbers[key]++;
        ProducerRecord<String, String> record =
                new ProducerRecord<>(topic, Integer.toString(key), Integer.toString(number));
        producer.send(record, (where, error) -> note(key, number, error));
    }
}

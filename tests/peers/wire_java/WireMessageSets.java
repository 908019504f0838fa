import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.StringJoiner;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Time;

/**
 * Reads lines "read HEX" and prints what is in the messages, "build MAGIC CODEC OFFSET COUNT" and
 * prints the hex of a message set of its own, or "down MAGIC OFFSET HEX" and prints the hex of
 * record batches in that format.
 */
public class WireMessageSets {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        String line;
        while ((line = lines.readLine()) != null) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "read" -> answers.println(read(words[1]));
                case "build" -> answers.println(build(words));
                default -> answers.println(down(words));
            }
        }
        answers.flush();
    }

    private static MemoryRecords records(String hex) {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(hex)));
    }

    private static String read(String hex) {
        StringJoiner found = new StringJoiner(" ");
        for (MutableRecordBatch batch : records(hex).batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                record.ensureValid();
                StringJoiner parts = new StringJoiner(":");
                parts.add(Integer.toString(batch.magic()));
                parts.add(Integer.toString(batch.compressionType().id));
                parts.add(Integer.toString(batch.timestampType().id));
                parts.add(Long.toString(record.offset())).add(Long.toString(record.timestamp()));
                parts.add(hex(record.key())).add(hex(record.value()));
                found.add(parts.toString());
            }
        }
        return found.toString();
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return "null";
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HEX.formatHex(bytes);
    }

    private static String build(String[] words) {
        byte magic = Byte.parseByte(words[1]);
        CompressionType codec = CompressionType.forId(Integer.parseInt(words[2]));
        long offset = Long.parseLong(words[3]);
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(1024), magic, codec, TimestampType.CREATE_TIME, offset);
        for (int i = 0; i < Integer.parseInt(words[4]); i++) {
            byte[] key = i % 3 == 0 ? null : ("key-" + i).getBytes(StandardCharsets.UTF_8);
            byte[] value = i % 5 == 0
                ? null : ("value-" + i).repeat(i % 7).getBytes(StandardCharsets.UTF_8);
            builder.append(1000L + i, key, value);
        }
        return HEX.formatHex(bytes(builder.build()));
    }

    private static String down(String[] words) {
        byte magic = Byte.parseByte(words[1]);
        return HEX.formatHex(bytes((MemoryRecords) records(words[3])
            .downConvert(magic, Long.parseLong(words[2]), Time.SYSTEM).records()));
    }

    private static byte[] bytes(MemoryRecords records) {
        byte[] bytes = new byte[records.sizeInBytes()];
        records.buffer().duplicate().get(bytes);
        return bytes;
    }
}

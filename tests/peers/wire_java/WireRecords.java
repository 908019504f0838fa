import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.StringJoiner;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.SimpleRecord;

/**
 * Reads lines "read HEX" and prints what is in the batches, "build CODEC COUNT" and prints the hex
 * of a batch of its own, or "marker ..." and prints the hex of a transaction marker.
 */
public class WireRecords {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        String line;
        while ((line = lines.readLine()) != null) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "read" -> answers.println(read(HEX.parseHex(words[1])));
                case "build" -> answers.println(
                    build(Integer.parseInt(words[1]), Integer.parseInt(words[2])));
                default -> answers.println(marker(words));
            }
        }
        answers.flush();
    }

    private static String read(byte[] bytes) {
        StringJoiner found = new StringJoiner(" ");
        MemoryRecords all = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
        for (MutableRecordBatch batch : all.batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                StringJoiner parts = new StringJoiner(":");
                parts.add(Long.toString(record.offset())).add(Long.toString(record.timestamp()));
                parts.add(hex(record.key())).add(hex(record.value()));
                for (Header header : record.headers()) {
                    parts.add(header.key());
                    parts.add(header.value() == null ? "null" : HEX.formatHex(header.value()));
                }
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

    private static String build(int codec, int count) {
        SimpleRecord[] records = new SimpleRecord[count];
        for (int i = 0; i < count; i++) {
            Header[] headers = {new RecordHeader("h", null), new RecordHeader("i", new byte[] {1})};
            byte[] key = i % 3 == 0 ? null : ("key-" + i).getBytes(StandardCharsets.UTF_8);
            byte[] value = ("value-" + i).repeat(i % 7).getBytes(StandardCharsets.UTF_8);
            records[i] = new SimpleRecord(1000L + i, key, value, headers);
        }
        Compression compression = Compression.of(CompressionType.forId(codec)).build();
        return HEX.formatHex(bytes(MemoryRecords.withRecords(compression, records)));
    }

    private static String marker(String[] words) {
        ControlRecordType type =
            words[1].equals("commit") ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
        EndTransactionMarker marker =
            new EndTransactionMarker(type, Integer.parseInt(words[2]));
        return HEX.formatHex(bytes(MemoryRecords.withEndTransactionMarker(
            7L, 1_700_000_000_000L, 3, 42L, (short) 5, marker)));
    }

    private static byte[] bytes(MemoryRecords records) {
        byte[] bytes = new byte[records.sizeInBytes()];
        records.buffer().duplicate().get(bytes);
        return bytes;
    }
}

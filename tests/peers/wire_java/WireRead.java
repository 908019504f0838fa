import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Reads lines "class TAB version TAB hex", decodes the bytes with the coordinators' own classes and
 * answers with the bytes they write again and with their text form.
 */
public class WireRead {
    private static final String PACKAGE = "kafka.internals.generated.";

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        String line;
        while ((line = lines.readLine()) != null) {
            String[] parts = line.split("\t");
            short version = Short.parseShort(parts[1]);
            ByteBuffer in = ByteBuffer.wrap(HexFormat.of().parseHex(parts[2]));
            Message message = (Message)
                Class.forName(PACKAGE + parts[0]).getDeclaredConstructor().newInstance();
            message.read(new ByteBufferAccessor(in), version);
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer out = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(out), cache, version);
            answers.println(
                in.remaining() + "\t" + HexFormat.of().formatHex(out.array()) + "\t" + message);
        }
        answers.flush();
    }
}

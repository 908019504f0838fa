import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Reads lines "message TAB version TAB json" and answers each with the hex bytes that Kafka's own
 * class writes for that message, or with "error" and the reason.
 */
public class WireBytes {
    private static final String PACKAGE = "org.apache.kafka.common.message.";

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        ObjectMapper json = new ObjectMapper();
        String line;
        while ((line = lines.readLine()) != null) {
            String[] parts = line.split("\t", 3);
            answers.println(answer(parts[0], Short.parseShort(parts[1]), json.readTree(parts[2])));
        }
        answers.flush();
    }

    private static String answer(String name, short version, JsonNode node) {
        try {
            Message message = parse(name, version, node);
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(buffer), cache, version);
            if (buffer.hasRemaining()) {
                return "error size does not match";
            }
            return "ok " + HexFormat.of().formatHex(buffer.array());
        } catch (Exception problem) {
            Throwable cause = problem.getCause() == null ? problem : problem.getCause();
            return "error " + cause.toString().replace('\n', ' ');
        }
    }

    private static Message parse(String name, short version, JsonNode node) throws Exception {
        Class<?> converter;
        try {
            converter = Class.forName(PACKAGE + name + "DataJsonConverter");
        } catch (ClassNotFoundException notAnApi) {
            converter = Class.forName(PACKAGE + name + "JsonConverter");
        }
        Method read = converter.getMethod("read", JsonNode.class, short.class);
        return (Message) read.invoke(null, node, version);
    }
}

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command line tools one after the other in one JVM: a start costs more than a command.
 *
 * A line of input is a main class and its arguments, each in base64, with spaces between. The answer
 * is one line: the exit code, then what went to stdout and to stderr, in base64.
 */
public class RunTools {
    static class Ended extends RuntimeException {
        final int code;

        Ended(int code) {
            super(null, null, false, false);
            this.code = code;
        }
    }

    /** Scala's Console and log4j take the streams once; what is behind them changes per command. */
    static class Switch extends OutputStream {
        ByteArrayOutputStream target = new ByteArrayOutputStream();
        boolean isClosed;

        @Override
        public void write(int b) {
            if (!isClosed) {
                target.write(b);
            }
        }

        @Override
        public void write(byte[] bytes, int offset, int length) {
            if (!isClosed) {
                target.write(bytes, offset, length);
            }
        }

        String take() {
            byte[] written = target.toByteArray();
            target = new ByteArrayOutputStream();
            isClosed = false;
            return Base64.getEncoder().encodeToString(written);
        }
    }

    static Integer firstCode;

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        Switch out = new Switch();
        Switch err = new Switch();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> {
            // Kafka 4's tools catch what is thrown here and exit once more: the first time counts.
            if (firstCode == null) {
                firstCode = code;
                out.isClosed = true;
                err.isClosed = true;
            }
            throw new Ended(code);
        });
        BufferedReader requests =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] words = Arrays.stream(line.split(" "))
                .map(word -> new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8))
                .toArray(String[]::new);
            firstCode = null;
            int code = run(words[0], Arrays.copyOfRange(words, 1, words.length));
            code = firstCode == null ? code : firstCode;
            answers.println(code + " " + out.take() + " " + err.take() + " .");
            answers.flush();
        }
    }

    static int run(String mainClass, String[] arguments) throws Exception {
        try {
            Class.forName(mainClass)
                .getMethod("main", String[].class)
                .invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException failure) {
            Throwable cause = failure.getCause();
            if (cause instanceof Ended) {
                return ((Ended) cause).code;
            }
            // What the JVM prints of an exception that leaves main, without the stack.
            System.err.println("Exception in thread \"main\" " + cause);
            return 1;
        }
    }
}

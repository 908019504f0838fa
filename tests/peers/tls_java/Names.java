import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.Base64;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * Says who a certificate is, as a broker of Apache Kafka does. A line of input is a certificate and
 * mapping rules, both in base64; the answer is the name and the principal, or what is wrong, in base64.
 */
public class Names {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        PrintStream answers = new PrintStream(System.out, true);
        String line;
        while ((line = lines.readLine()) != null) {
            String[] words = line.split(" ");
            byte[] der = Base64.getDecoder().decode(words[0]);
            String rules = new String(Base64.getDecoder().decode(words[1]), StandardCharsets.UTF_8);
            CertificateFactory factory = CertificateFactory.getInstance("X.509");
            X509Certificate certificate =
                (X509Certificate) factory.generateCertificate(new ByteArrayInputStream(der));
            String name = certificate.getSubjectX500Principal().getName();
            answers.println(encoded(name) + " " + encoded(mapped(rules, name)));
        }
    }

    static String mapped(String rules, String name) {
        try {
            return SslPrincipalMapper.fromRules(rules).getName(name);
        } catch (Exception error) {
            return "! " + error.getMessage();
        }
    }

    static String encoded(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8)) + ".";
    }
}

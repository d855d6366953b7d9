import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.Socket;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.FutureTask;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLPeerUnverifiedException;
import javax.net.ssl.SSLServerSocket;
import javax.net.ssl.SSLSocket;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.SslConfigs;
import org.apache.kafka.common.config.internals.BrokerSecurityConfigs;
import org.apache.kafka.common.security.ssl.DefaultSslEngineFactory;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * Kafka's TLS, from the settings ssl.*: a question a line, an answer a line, JSON (see tests/interop/test_tls_kafka.py).
 * Run from source: java -cp 'jars/*' TlsOracle.java
 */
public class TlsOracle {
    static final int TIMEOUT_MS = 20_000;
    static FutureTask<List<String>> accepted;

    public static void main(String[] ignored) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            JsonNode question = json.readTree(line);
            Object answer = switch (question.get("ask").asText()) {
                case "load" -> load(question);
                case "connect" -> connect(question);
                case "listen" -> listen(question);
                case "accepted" -> accepted.get();
                default -> throw new IllegalArgumentException(line);
            };
            System.out.write((json.writeValueAsString(answer) + "\n").getBytes(UTF_8));
            System.out.flush();
        }
    }

    static Map<String, Object> parsed(JsonNode question) {
        ConfigDef definition = new ConfigDef();
        SslConfigs.addClientSslSupport(definition);
        definition.define(BrokerSecurityConfigs.SSL_CLIENT_AUTH_CONFIG, ConfigDef.Type.STRING, "none",
            ConfigDef.Importance.LOW, "");
        Map<String, String> settings = new HashMap<>();
        question.get("settings").properties().forEach(each -> settings.put(each.getKey(), each.getValue().asText()));
        return definition.parse(settings);
    }

    static DefaultSslEngineFactory factory(JsonNode question) {
        DefaultSslEngineFactory factory = new DefaultSslEngineFactory();
        factory.configure(parsed(question));
        return factory;
    }

    /** Null where Kafka takes the settings for a listener, else the class of the error. */
    static String load(JsonNode question) {
        try {
            factory(question).createServerSslEngine("localhost", 1);
            return null;
        } catch (Exception refused) {
            return refused.getClass().getSimpleName();
        }
    }

    /** What the client sees of a listener, by a handshake and a ping that comes back; or the error. */
    static List<String> connect(JsonNode question) {
        try (Socket plain = new Socket("127.0.0.1", question.get("port").asInt())) {
            plain.setSoTimeout(TIMEOUT_MS);
            DefaultSslEngineFactory factory = factory(question);
            String host = question.get("host").asText();
            SSLEngine engine = factory.createClientSslEngine(host, plain.getPort(),
                (String) parsed(question).get(SslConfigs.SSL_ENDPOINT_IDENTIFICATION_ALGORITHM_CONFIG));
            SSLSocket socket = (SSLSocket) factory.sslContext().getSocketFactory()
                .createSocket(plain, host, plain.getPort(), true);
            socket.setSSLParameters(engine.getSSLParameters());
            return pinged(socket, true);
        } catch (Exception failed) {
            return error(failed);
        }
    }

    /** The port of a listener for one client; `accepted` has what the listener sees of it. */
    static int listen(JsonNode question) throws Exception {
        DefaultSslEngineFactory factory = factory(question);
        SSLServerSocket server = (SSLServerSocket) factory.sslContext().getServerSocketFactory().createServerSocket(0);
        server.setSSLParameters(factory.createServerSslEngine("localhost", 1).getSSLParameters());
        accepted = new FutureTask<>(() -> {
            try (server; SSLSocket socket = (SSLSocket) server.accept()) {
                socket.setSoTimeout(TIMEOUT_MS);
                return pinged(socket, false);
            } catch (Exception failed) {
                return error(failed);
            }
        });
        new Thread(accepted).start();
        return server.getLocalPort();
    }

    /** Protocol, suite, and the name of the peer's principal. */
    static List<String> pinged(SSLSocket socket, boolean asks) throws Exception {
        byte[] ping = "ping".getBytes(UTF_8);
        if (asks)
            socket.getOutputStream().write(ping);
        byte[] got = socket.getInputStream().readNBytes(ping.length);
        if (got.length < ping.length)
            throw new IllegalStateException("no ping came back");
        if (!asks)
            socket.getOutputStream().write(got);
        String peer;
        try {
            peer = socket.getSession().getPeerPrincipal().getName();
        } catch (SSLPeerUnverifiedException nobody) {
            peer = "";
        }
        return List.of(socket.getSession().getProtocol(), socket.getSession().getCipherSuite(), peer);
    }

    static List<String> error(Exception failed) {
        return List.of(failed.getClass().getSimpleName(), String.valueOf(failed.getMessage()));
    }
}

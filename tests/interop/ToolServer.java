import java.io.BufferedInputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * Kafka's command-line tools many times in one JVM, until the input ends.
 * A request is a line of fields with tabs between them, STDIN_BYTES CLASS ARGUMENT..., and then these bytes.
 * An answer is a line "EXIT STDOUT_BYTES STDERR_BYTES" and then these bytes. Run from source: java -cp 'jars/*' ToolServer.java
 */
public class ToolServer {
    private static final class Exited extends Error { // not an Exception: tools catch these
    }

    private static final List<Runnable> hooks = new ArrayList<>();
    private static int status;

    public static void main(String[] ignored) throws Exception {
        PrintStream answers = System.out;
        InputStream requests = new BufferedInputStream(System.in);
        Exit.setExitProcedure((status, message) -> exit(status));
        Exit.setHaltProcedure((status, message) -> exit(status));
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        for (String line = readLine(requests); line != null; line = readLine(requests)) {
            String[] fields = line.split("\t", -1);
            System.setIn(new ByteArrayInputStream(requests.readNBytes(Integer.parseInt(fields[0]))));
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            print(out, err);
            status = -1;
            call(fields[1], Arrays.copyOfRange(fields, 2, fields.length));
            print(out, err);
            hooks.forEach(Runnable::run);
            hooks.clear();
            System.out.flush();
            System.err.flush();
            byte[] printed = out.toByteArray(); // threads that a tool leaves may still log
            byte[] logged = err.toByteArray();
            answers.print(status + " " + printed.length + " " + logged.length + "\n");
            answers.write(printed);
            answers.write(logged);
            answers.flush();
        }
    }

    private static void print(OutputStream out, OutputStream err) {
        System.out.flush();
        System.err.flush();
        System.setOut(new PrintStream(out, false, UTF_8));
        System.setErr(new PrintStream(err, false, UTF_8));
    }

    private static void exit(int asked) {
        if (status < 0) {
            status = asked;
            print(OutputStream.nullOutputStream(), OutputStream.nullOutputStream()); // it would not have come to that
        }
        throw new Exited();
    }

    private static void call(String tool, String[] arguments) throws ReflectiveOperationException {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
            status = Math.max(status, 0);
        } catch (InvocationTargetException wrapped) {
            if (status < 0) {
                status = 1;
                System.err.print("Exception in thread \"main\" ");
                wrapped.getCause().printStackTrace();
            }
        }
    }

    private static String readLine(InputStream input) throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        for (int each = input.read(); each != '\n'; each = input.read()) {
            if (each < 0) {
                return null;
            }
            line.write(each);
        }
        return line.toString(UTF_8);
    }
}

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.DumpLogSegments;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * kafka-dump-log many times in one JVM: a line of arguments (separated by tabs) in, its output out, until the input ends.
 * An answer is a line "EXIT STDOUT_BYTES STDERR_BYTES" and then these bytes. Run from source: java -cp 'jars/*' DumpServer.java
 */
public class DumpServer {
    private static final class Exited extends RuntimeException {
        final int status;

        Exited(int status) {
            this.status = status;
        }
    }

    public static void main(String[] ignored) throws Exception {
        PrintStream answers = System.out;
        Exit.setExitProcedure((status, message) -> { throw new Exited(status); });
        Exit.setHaltProcedure((status, message) -> { throw new Exited(status); });
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, false, UTF_8));
            System.setErr(new PrintStream(err, false, UTF_8));
            int status = 0;
            try {
                DumpLogSegments.main(line.split("\t"));
            } catch (Exited exited) {
                status = exited.status;
            } catch (Throwable thrown) {
                System.err.print("Exception in thread \"main\" ");
                thrown.printStackTrace();
                status = 1;
            }
            System.out.flush();
            System.err.flush();
            answers.print(status + " " + out.size() + " " + err.size() + "\n");
            out.writeTo(answers);
            err.writeTo(answers);
            answers.flush();
        }
    }
}

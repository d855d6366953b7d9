import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;

/** Makes cases.txt: java JavaText.java INPUT > cases.txt, where a line is "utf8 HEX" or "double BITS". */
public class JavaText {
    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            String[] words = (line + " ").split(" ", 3);
            if (words[0].equals("double")) {
                long bits = Long.parseUnsignedLong(words[1], 16);
                out.println(line + " " + Double.toString(Double.longBitsToDouble(bits)));
            } else {
                StringBuilder units = new StringBuilder();
                byte[] bytes = HexFormat.of().parseHex(words[1]);
                new String(bytes, StandardCharsets.UTF_8).chars().forEach(unit -> units.append(String.format("%04x", unit)));
                out.println(line + " " + units);
            }
        }
        out.flush();
    }
}

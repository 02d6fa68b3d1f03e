package tidemark.peer;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.tools.command.MQAdminStartup;
import org.apache.rocketmq.tools.command.SubCommand;

/**
 * mqadmin, unmodified, for many commands in one JVM: each line of the input is a command, the seconds that it has and its
 * words, apart by tabs; a line {@code RAN name base64} has what it printed. One that has not ended by then is left behind.
 * Lines {@code HAS name} at the end: every command that this release has.
 */
@SuppressWarnings("removal")
final class Tools {
    private Tools() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        // A command that takes its options for wrong ends the process; here its thread ends.
        System.setSecurityManager(new SecurityManager() {
            @Override
            public void checkPermission(java.security.Permission permission) {
                if (permission.getName().startsWith("exitVM") && !Thread.currentThread().getName().equals("main")) {
                    throw new SecurityException("the command ended the process: " + permission.getName());
                }
            }
        });
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] given = line.split("\t");
            String[] words = Arrays.copyOfRange(given, 1, given.length);
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream stream = new PrintStream(printed, true);
            System.setOut(stream);
            System.setErr(stream);
            Thread thread = new Thread(() -> {
                try {
                    MQAdminStartup.main0(words, null);
                } catch (SecurityException error) {
                    stream.println(error.getMessage());
                }
            });
            thread.setDaemon(true);
            thread.start();
            thread.join(Long.parseLong(given[0]) * 1000);
            String text = thread.isAlive() ? printed + "\nstill running" : printed.toString();
            out.println("RAN\t" + words[0] + "\t"
                    + Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8)));
            out.flush();
        }
        for (String name : names()) out.println("HAS\t" + name);
        out.flush();
        Runtime.getRuntime().halt(0);
    }

    /** By reflection: each release has another name for its list. */
    private static Set<String> names() throws Exception {
        MQAdminStartup.initCommand();
        Set<String> names = new TreeSet<>();
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (!Modifier.isStatic(field.getModifiers()) || !List.class.isAssignableFrom(field.getType())) continue;
            field.setAccessible(true);
            for (Object each : (List<?>) field.get(null)) names.add(((SubCommand) each).commandName());
        }
        return names;
    }
}

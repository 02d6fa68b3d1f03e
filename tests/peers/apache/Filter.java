import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;

/** Apache's own SQL92 filter: a line is an expression and names and values, in base64 between tabs; the answer is
 *  MATCH, NONE or REFUSED, as a broker would take it. */
public class Filter {
    static String text(String base64) {
        return new String(Base64.getDecoder().decode(base64), StandardCharsets.UTF_8);
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        StringBuilder answers = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            Map<String, Object> properties = new HashMap<>();
            for (int i = 1; i + 1 < words.length; i += 2) {
                properties.put(text(words[i]), text(words[i + 1]));
            }
            answers.append(answer(text(words[0]), properties)).append('\n');
        }
        System.out.print(answers);
    }

    static String answer(String expression, Map<String, Object> properties) {
        Expression compiled;
        try {
            compiled = FilterFactory.INSTANCE.get("SQL92").compile(expression);
        } catch (Throwable error) {
            return "REFUSED";
        }
        try {
            Object value = compiled.evaluate(new EvaluationContext() {
                @Override
                public Object get(String name) {
                    return properties.get(name);
                }

                @Override
                public Map<String, Object> keyValues() {
                    return properties;
                }
            });
            return Boolean.TRUE.equals(value) ? "MATCH" : "NONE";
        } catch (Throwable error) {
            return "NONE";
        }
    }
}

package assayjvm;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** As much of JSON as questions and answers need: a JDK has none. */
final class MavenJSON {
    private final String s;
    private int at;

    private MavenJSON(String s) {
        this.s = s;
    }

    static Object read(String s) {
        return new MavenJSON(s).value();
    }

    private Object value() {
        switch (peek()) {
            case '{': {
                Map<String, Object> m = new LinkedHashMap<>();
                for (at++; peek() != '}'; ) {
                    String k = (String) value();
                    peek();
                    at++; // the colon
                    m.put(k, value());
                    if (peek() == ',') {
                        at++;
                    }
                }
                at++;
                return m;
            }
            case '[': {
                List<Object> l = new ArrayList<>();
                for (at++; peek() != ']'; ) {
                    l.add(value());
                    if (peek() == ',') {
                        at++;
                    }
                }
                at++;
                return l;
            }
            case '"':
                return string();
            default: {
                int from = at;
                while (at < s.length() && ",]} \n".indexOf(s.charAt(at)) < 0) {
                    at++;
                }
                String w = s.substring(from, at);
                return w.equals("true") ? (Object) true : w.equals("false") ? (Object) false : w.equals("null") ? null : (Object) Double.valueOf(w);
            }
        }
    }

    private char peek() {
        while (Character.isWhitespace(s.charAt(at))) {
            at++;
        }
        return s.charAt(at);
    }

    private String string() {
        StringBuilder b = new StringBuilder();
        for (at++; s.charAt(at) != '"'; at++) {
            char c = s.charAt(at);
            if (c != '\\') {
                b.append(c);
                continue;
            }
            c = s.charAt(++at);
            int known = "nrtbf".indexOf(c);
            if (c == 'u') {
                b.append((char) Integer.parseInt(s.substring(at + 1, at + 5), 16));
                at += 4;
            } else {
                b.append(known < 0 ? c : "\n\r\t\b\f".charAt(known));
            }
        }
        at++;
        return b.toString();
    }

    static String write(Object o) {
        StringBuilder b = new StringBuilder();
        write(b, o);
        return b.toString();
    }

    private static void write(StringBuilder b, Object o) {
        if (o instanceof Map) {
            String sep = "{";
            for (Map.Entry<?, ?> e : ((Map<?, ?>) o).entrySet()) {
                b.append(sep);
                write(b, e.getKey());
                b.append(':');
                write(b, e.getValue());
                sep = ",";
            }
            b.append(sep.equals("{") ? "{}" : "}");
        } else if (o instanceof Iterable) {
            String sep = "[";
            for (Object x : (Iterable<?>) o) {
                b.append(sep);
                write(b, x);
                sep = ",";
            }
            b.append(sep.equals("[") ? "[]" : "]");
        } else if (o instanceof String) {
            b.append('"');
            for (char c : ((String) o).toCharArray()) {
                if (c < ' ' || c > '~' || c == '"' || c == '\\') {
                    b.append(String.format("\\u%04x", (int) c));
                } else {
                    b.append(c);
                }
            }
            b.append('"');
        } else {
            b.append(o);
        }
    }
}

package example;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Locale;

/** What the tests of the driver change. */
public class Calc {
    public static final int LIMIT = 10;

    private static int calls;

    public static int add(int a, int b) {
        return a + b;
    }

    public static int clamp(int n) {
        if (n > LIMIT) {
            return LIMIT;
        }
        return n;
    }

    public static int sum(int n) {
        int total = 0;
        while (n > 0) {
            total += n;
            n -= 1;
        }
        return total;
    }

    public static int once() {
        return ++calls;
    }

    public static String upper(String s) {
        return s.toUpperCase(Locale.ROOT);
    }

    static int unused(int n) {
        return n * 2;
    }

    public static String text() throws IOException {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(Calc.class.getResourceAsStream("text.txt")))) {
            return in.readLine();
        }
    }
}

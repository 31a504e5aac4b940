package assayjvm;

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.FileDescriptor;
import java.io.OutputStream;
import java.io.PrintStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import java.util.Set;
import java.util.TimeZone;

/**
 * The JVM that runs tests, started as Surefire starts its own. Libraries are loaded once; the project's classes and the
 * tests are loaded anew for each run.
 */
public final class MavenWorker {
    /** Runs tests with one of the project's libraries for tests. */
    public interface Runner {
        /** Runs what is selected: "c:CLASS", "u:UNIQUE-ID" or "i:REPORT-ID". It returns when that is done. */
        void run(ClassLoader loader, List<String> selected, Teller to) throws Throwable;
    }

    /** What happens, told as it happens. A key is what selects a test. */
    public static final class Teller {
        private final PrintStream out;
        private final boolean watch;
        private long began;
        public final boolean stop;
        public volatile boolean failed;

        Teller(PrintStream out, boolean stop, boolean watch) {
            this.out = out;
            this.stop = stop;
            this.watch = watch;
        }

        public synchronized void started(String type, String name) {
            began = System.nanoTime();
            say("s", id(type, name));
        }

        /** status is one of "passed", "failed", "error", "skipped". */
        public synchronized void ended(String key, String type, String name, String status, String text) {
            failed |= status.equals("failed") || status.equals("error");
            if (text.length() > 3000) {
                text = text.substring(0, 3000);
            }
            String hits = "";
            if (watch) {
                hits = hits();
            }
            say("e", id(type, name), status, text, key, String.valueOf((System.nanoTime() - began) / 1000), hits);
        }

        /** What was passed outside of tests belongs to the whole class. */
        synchronized void classEnded(String type) {
            say("k", type, hits());
        }

        private static String hits() {
            StringBuilder b = new StringBuilder();
            boolean[] h = MavenProbe.hit;
            for (int i = 0; i < h.length; i++) {
                if (h[i]) {
                    b.append(i).append(' ');
                    h[i] = false;
                }
            }
            return b.toString();
        }

        void say(String... words) {
            StringBuilder b = new StringBuilder("\nassay-w");
            for (String w : words) {
                b.append(' ').append(encode(w));
            }
            out.print(b.append('\n'));
            out.flush();
        }
    }

    static String encode(String s) {
        return "." + Base64.getEncoder().encodeToString(s.getBytes(StandardCharsets.UTF_8));
    }

    static String decode(String s) {
        return new String(Base64.getDecoder().decode(s.substring(1)), StandardCharsets.UTF_8);
    }

    /** A test's id in the suite's report. */
    static String id(String type, String name) {
        return name == null || name.isEmpty() || name.equals(type) ? type : type + "::" + name;
    }

    public static void main(String[] args) throws Exception {
        InputStream in = System.in;
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        for (int i = 1; i < args.length; i++) {
            Properties p = new Properties();
            try (InputStream f = new FileInputStream(args[i])) {
                p.load(f);
            }
            for (String k : p.stringPropertyNames()) {
                System.setProperty(k, p.getProperty(k));
            }
        }
        MavenWorker.class.getClassLoader().setDefaultAssertionStatus(true);
        Runner runner = (Runner) Class.forName(args[0]).getDeclaredConstructor().newInstance();
        World world = new World();
        BufferedReader lines = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
        Teller hello = new Teller(out, false, false);
        hello.say("ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            for (int i = 0; i < words.length; i++) {
                words[i] = decode(words[i]);
            }
            answer(runner, world, out, words);
        }
        Runtime.getRuntime().halt(0);
    }

    /** words: the number of probes (-1: nobody watches), "stop" or "", the folders of classes, then what to run, in parts. */
    private static void answer(Runner runner, World world, PrintStream out, String[] words) {
        int probes = Integer.parseInt(words[0]);
        Teller to = new Teller(out, words[1].equals("stop"), probes >= 0);
        MavenProbe.hit = new boolean[Math.max(probes, 0)];
        String broken = "";
        ClassLoader loader = null;
        try {
            for (int i = 3; i < words.length && !(to.stop && to.failed); i++) {
                if (loader == null || probes >= 0) {
                    loader = loader(words[2]);
                }
                List<String> selected = new ArrayList<>();
                for (String s : words[i].split("\n")) {
                    selected.add(s);
                }
                Thread.currentThread().setContextClassLoader(loader);
                to.say("p", String.valueOf(i - 3));
                runner.run(loader, selected, to);
                if (probes >= 0) {
                    to.classEnded(selected.get(0).substring(2));
                }
            }
        } catch (Throwable t) {
            broken = text(t);
        }
        boolean clean = world.restore();
        to.say("x", broken, clean ? "clean" : "");
    }

    private static ClassLoader loader(String dirs) throws Exception {
        List<URL> urls = new ArrayList<>();
        for (String d : dirs.split(File.pathSeparator)) {
            urls.add(new File(d).toURI().toURL());
        }
        URLClassLoader l = new URLClassLoader(urls.toArray(new URL[0]), MavenWorker.class.getClassLoader());
        l.setDefaultAssertionStatus(true);
        MavenLoader.current = l;
        return l;
    }

    public static String text(Throwable t) {
        java.io.StringWriter w = new java.io.StringWriter();
        try {
            t.printStackTrace(new java.io.PrintWriter(w));
        } catch (Throwable broken) {
            return t.getClass().getName();
        }
        return w.toString();
    }

    /** What a run may change of a JVM, and is made as it was. */
    private static final class World {
        private final Properties properties = new Properties();
        private final Locale locale = Locale.getDefault();
        private final Locale display = Locale.getDefault(Locale.Category.DISPLAY);
        private final Locale format = Locale.getDefault(Locale.Category.FORMAT);
        private final TimeZone zone = TimeZone.getDefault();
        private final Set<Thread> threads = new HashSet<>();
        private final ClassLoader context = Thread.currentThread().getContextClassLoader();
        private final PrintStream nowhere = new PrintStream(new OutputStream() {
            @Override
            public void write(int b) {}

            @Override
            public void write(byte[] b, int at, int n) {}
        });

        World() {
            properties.putAll(System.getProperties());
            threads.addAll(Thread.getAllStackTraces().keySet());
            streams();
        }

        private void streams() {
            System.setIn(new ByteArrayInputStream(new byte[0]));
            System.setOut(nowhere);
            System.setErr(nowhere);
        }

        /** False: something of the run goes on, and the JVM is of no more use. */
        boolean restore() {
            Thread.interrupted();
            Thread.currentThread().setContextClassLoader(context);
            Thread.setDefaultUncaughtExceptionHandler(null);
            Properties p = new Properties();
            p.putAll(properties);
            System.setProperties(p);
            Locale.setDefault(locale);
            Locale.setDefault(Locale.Category.DISPLAY, display);
            Locale.setDefault(Locale.Category.FORMAT, format);
            TimeZone.setDefault(zone);
            streams();
            boolean clean = true;
            for (Thread t : Thread.getAllStackTraces().keySet()) {
                if (threads.contains(t) || !ofProject(t.getContextClassLoader()) && !ofProject(t.getClass().getClassLoader())) {
                    continue;
                }
                t.interrupt();
                try {
                    t.join(50);
                } catch (InterruptedException e) {
                    clean = false;
                }
                clean &= !t.isAlive();
            }
            Runtime r = Runtime.getRuntime();
            if (r.totalMemory() - r.freeMemory() > r.maxMemory() / 2) {
                System.gc();
                clean &= r.totalMemory() - r.freeMemory() <= r.maxMemory() / 2;
            }
            return clean;
        }

        private boolean ofProject(ClassLoader l) {
            for (; l != null; l = l.getParent()) {
                if (l instanceof URLClassLoader && l.getParent() == MavenWorker.class.getClassLoader()) {
                    return true;
                }
            }
            return false;
        }
    }
}

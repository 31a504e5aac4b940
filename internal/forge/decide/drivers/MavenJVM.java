package assayjvm;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A JVM that runs tests, watched from outside: the code in it is not trusted. */
final class MavenJVM {
    /** What came of a run. */
    static final class Result {
        final List<String[]> events = new ArrayList<>(); // "e" and "k" with their words
        String running = "";
        String broken = "";
        String signal = "";
        boolean ended;
        boolean timed;
        boolean clean;
        long millis;
        double cpu; // seconds
    }

    private static final String[] GONE = {};

    private final Process p;
    private final Path log;
    private final BlockingQueue<String[]> said = new LinkedBlockingQueue<>();
    private boolean ready;
    int uses;

    MavenJVM(MavenProject project, String runner) throws IOException {
        List<String> line = new ArrayList<>();
        line.add(Paths.get(System.getProperty("java.home"), "bin", "java").toString());
        line.addAll(project.jvm);
        line.add("-Djava.system.class.loader=assayjvm.MavenLoader");
        line.add("-cp");
        line.add(project.home.resolve("runner") + File.pathSeparator + String.join(File.pathSeparator, project.libraries));
        line.add("assayjvm.MavenWorker");
        line.add("assayjvm." + runner);
        for (Path f : project.propertyFiles) {
            line.add(f.toString());
        }
        line.add(project.home.resolve("worker.properties").toString());
        log = project.home.resolve("worker.log");
        ProcessBuilder b = new ProcessBuilder(line).directory(project.dir.toFile()).redirectError(log.toFile());
        b.environment().clear();
        b.environment().putAll(project.env);
        p = b.start();
        Thread reader = new Thread(this::read);
        reader.setDaemon(true);
        reader.start();
    }

    private void read() {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(p.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                if (!line.startsWith("assay-w ")) {
                    continue;
                }
                String[] words = line.substring("assay-w ".length()).split(" ");
                for (int i = 0; i < words.length; i++) {
                    words[i] = MavenWorker.decode(words[i]);
                }
                said.add(words);
            }
        } catch (IOException | RuntimeException e) {
            // what ends it is all the same
        }
        said.add(GONE);
    }

    /**
     * limit is in seconds, and so is what each part may take of processors' time (none: no limit): a loop that burns time
     * is one on a busy machine as well.
     */
    Result run(List<String> words, double limit, List<Double> parts) throws IOException, InterruptedException {
        Result r = new Result();
        uses++;
        if (!ready) { // its start is no part of the run
            String[] hello = said.poll(120, TimeUnit.SECONDS);
            if (hello == null || hello.length == 0) {
                throw new IOException("the JVM of the tests does not start: " + new String(Files.readAllBytes(log), StandardCharsets.UTF_8));
            }
            ready = true;
        }
        long began = System.nanoTime();
        double used = used();
        double part = used;
        double cpu = parts.isEmpty() ? 0 : parts.get(0);
        StringBuilder line = new StringBuilder();
        for (String w : words) {
            line.append(line.length() == 0 ? "" : " ").append(MavenWorker.encode(w));
        }
        try {
            OutputStream out = p.getOutputStream();
            out.write(line.append('\n').toString().getBytes(StandardCharsets.UTF_8));
            out.flush();
        } catch (IOException e) {
            // it is gone: that is read below
        }
        while (true) {
            String[] w = said.poll(500, TimeUnit.MILLISECONDS);
            r.millis = (System.nanoTime() - began) / 1000000;
            if (w == null || w.length > 0 && w[0].equals("x")) {
                r.cpu = used() - used;
            }
            if (w == null) {
                if (r.millis > limit * 1000 || cpu > 0 && used() - part > cpu) {
                    r.timed = true;
                    return r;
                }
                continue;
            }
            if (w == GONE) {
                p.waitFor(5, TimeUnit.SECONDS);
                r.signal = p.isAlive() ? "its end" : "status " + p.exitValue();
                return r;
            }
            switch (w[0]) {
                case "s":
                    r.running = w[1];
                    break;
                case "e":
                    if (w[1].equals(r.running)) {
                        r.running = "";
                    }
                    r.events.add(w);
                    break;
                case "p":
                    if (!parts.isEmpty()) {
                        cpu = parts.get(Integer.parseInt(w[1]));
                    }
                    part = used();
                    break;
                case "k":
                    r.events.add(w);
                    break;
                case "x":
                    r.ended = true;
                    r.broken = w[1];
                    r.clean = w[2].equals("clean");
                    return r;
                default:
            }
        }
    }


    /** What the process has taken of processors' time, in seconds. */
    private double used() {
        try {
            String stat = new String(Files.readAllBytes(Paths.get("/proc/" + p.pid() + "/stat")), StandardCharsets.ISO_8859_1);
            String[] f = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
            return (Long.parseLong(f[11]) + Long.parseLong(f[12])) / 100.0;
        } catch (IOException | RuntimeException e) {
            return 0;
        }
    }

    void end() {
        p.descendants().forEach(ProcessHandle::destroyForcibly);
        p.destroyForcibly();
    }
}

package assayjvm;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.BitSet;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Answers lines of JSON with lines of JSON: compiles what changes of a Maven project, and has a warm JVM run the tests
 * that pass it. "learn" runs once, and leaves in the home folder what "serve" needs.
 */
public final class MavenServer {
    private static final int USES = 400; // of a JVM: what loaders leave behind adds up

    /** A test as it was learnt. */
    private static final class Known {
        final Set<String> keys = new LinkedHashSet<>();
        String type = "";
        long micros;
    }

    private final Path home;
    private final MavenProject project;
    private final String runner;
    private final Map<String, Known> tests = new LinkedHashMap<>();
    private MavenCover cover = new MavenCover();
    private MavenJVM jvm;
    private final Set<String> temporary = new HashSet<>();
    private Map<Path, String> tree = new HashMap<>();

    private MavenServer(Path home) throws IOException {
        this.home = home;
        project = new MavenProject(home);
        switch (project.provider) {
            case "org.apache.maven.surefire.junitplatform.JUnitPlatformProvider":
                runner = "MavenPlatform";
                break;
            case "org.apache.maven.surefire.junit4.JUnit4Provider":
            case "org.apache.maven.surefire.junitcore.JUnitCoreProvider":
                runner = "MavenJUnit4";
                break;
            default:
                throw new IOException("its tests are run by " + project.provider);
        }
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // what a compiler's plug-ins print is no answer
        MavenServer s;
        try {
            s = new MavenServer(Paths.get(args[0]));
            if (args[1].equals("learn")) {
                s.learn(Paths.get(args[2]));
                say(out, Collections.singletonMap("ready", "learnt"));
                s.jvm.end();
                System.exit(0);
            }
            s.begin();
        } catch (Exception e) {
            say(out, Collections.singletonMap("fault", e instanceof IOException ? e.getMessage() : MavenWorker.text(e)));
            System.exit(1);
            return;
        }
        say(out, Collections.singletonMap("ready", "serving"));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> a;
            try {
                a = s.answer((Map<?, ?>) MavenJSON.read(line));
            } catch (Exception e) {
                a = Collections.singletonMap("fault", MavenWorker.text(e));
            }
            say(out, a);
        }
        s.jvm.end();
        System.exit(0);
    }

    private static void say(PrintStream out, Map<String, ?> a) {
        out.print("\nassay " + MavenJSON.write(a) + "\n");
        out.flush();
    }

    /** learn compiles the runner, and runs the healthy tests with an eye on what they pass. */
    private void learn(Path sources) throws Exception {
        MavenProject.Sources own = new MavenProject.Sources();
        own.options.addAll(Arrays.asList("-proc:none", "-nowarn"));
        List<Path> files = new ArrayList<>();
        for (String f : Arrays.asList("MavenWorker", "MavenLoader", "MavenProbe", runner)) {
            files.add(sources.resolve(f + ".java"));
        }
        String bad = project.compile(own, files, home.resolve("runner"), project.libraries);
        if (!bad.isEmpty()) {
            throw new IOException("its libraries for tests are of another form: " + bad);
        }
        Properties p = new Properties();
        p.setProperty("java.class.path", String.join(File.pathSeparator, Stream.concat(project.folders.stream(), project.libraries.stream()).collect(Collectors.toList())));
        p.setProperty("assay.junit.parameters", project.parameters);
        try (OutputStream o = Files.newOutputStream(home.resolve("worker.properties"))) {
            p.store(o, null);
        }
        Path watched = home.resolve("watch/classes");
        List<Path> copies = cover.watch(project.main, project.main.all(), home.resolve("watch/sources"));
        List<String> path = new ArrayList<>(project.main.path);
        path.remove(project.main.out.toString());
        path.add(home.resolve("runner").toString());
        bad = project.compile(project.main, copies, watched, path);
        List<String> words = new ArrayList<>();
        if (bad.isEmpty()) {
            words.addAll(Arrays.asList(String.valueOf(cover.probes), "", watched + File.pathSeparator + folders()));
        } else { // watched sources can be too long for a method
            cover = new MavenCover();
            words.addAll(Arrays.asList("0", "", folders()));
        }
        if (project.testClasses.isEmpty()) {
            throw new IOException("Surefire does not say which classes hold tests");
        }
        project.testClasses.forEach(c -> words.add("c:" + c));
        jvm = new MavenJVM(project, runner);
        MavenJVM.Result r = jvm.run(words, 3600, Collections.emptyList());
        if (!r.ended || !r.broken.isEmpty()) {
            throw new IOException("the healthy tests do not end in a warm JVM: " + r.broken + r.signal + " " + r.running);
        }
        List<String> lines = new ArrayList<>();
        List<String[]> open = new ArrayList<>();
        for (String[] e : r.events) {
            if (e[0].equals("k")) {
                cover.add("class " + e[1], e[2]);
                for (String[] t : open) {
                    lines.add(MavenWorker.encode(t[1]) + " " + MavenWorker.encode(t[4]) + " " + MavenWorker.encode(e[1]) + " " + t[5]);
                    cover.add(t[1], t[6]);
                    cover.add("class " + e[1], t[6]);
                }
                open.clear();
            } else {
                open.add(e);
            }
        }
        Files.write(home.resolve("tests"), lines, StandardCharsets.US_ASCII);
        cover.save(home.resolve("cover"));
        MavenProject.delete(home.resolve("watch"));
    }

    private String folders() {
        return String.join(File.pathSeparator, project.folders);
    }

    private void begin() throws IOException {
        for (String line : Files.readAllLines(home.resolve("tests"))) {
            String[] w = line.split(" ");
            Known k = tests.computeIfAbsent(MavenWorker.decode(w[0]), x -> new Known());
            k.keys.add(MavenWorker.decode(w[1]));
            k.type = MavenWorker.decode(w[2]);
            k.micros += Long.parseLong(w[3]);
        }
        cover = MavenCover.load(home.resolve("cover"));
        // Older Surefires write a name without its parameters.
        for (String id : new ArrayList<>(tests.keySet())) {
            tests.putIfAbsent(shorter(id), tests.get(id));
            if (cover.hits.containsKey(id)) {
                cover.hits.putIfAbsent(shorter(id), cover.hits.get(id));
            }
        }
        try (Stream<Path> s = Files.list(Paths.get("/tmp"))) {
            s.forEach(f -> temporary.add(f.getFileName().toString()));
        }
        tree = files();
        jvm = new MavenJVM(project, runner);
    }

    private static String shorter(String id) {
        int i = id.lastIndexOf('(');
        return i > 0 ? id.substring(0, i) : id;
    }

    @SuppressWarnings("unchecked")
    private Map<String, Object> answer(Map<?, ?> q) throws Exception {
        Map<String, Object> a = new LinkedHashMap<>();
        Map<Path, byte[]> old = new LinkedHashMap<>();
        Path root = Paths.get((String) q.get("root"));
        Map<String, String> files = (Map<String, String>) q.get("files_b64");
        List<String> want = ((List<Object>) q.get("want")).stream().map(String::valueOf).collect(Collectors.toList());
        BitSet touched = new BitSet();
        boolean known = files != null && !files.isEmpty();
        List<Path> main = new ArrayList<>();
        List<Path> test = new ArrayList<>();
        for (Map.Entry<String, String> e : (files == null ? Collections.<String, String>emptyMap() : files).entrySet()) {
            Path f = root.resolve(e.getKey()).normalize();
            byte[] now = Base64.getDecoder().decode(e.getValue());
            if (project.main.holds(f)) {
                main.add(f);
            } else if (project.tests != null && project.tests.holds(f)) {
                test.add(f);
            } else {
                a.put("cold", e.getKey() + " is none of the project's Java sources");
                return a;
            }
            byte[] had = Files.exists(f) ? Files.readAllBytes(f) : null;
            old.put(f, had);
            known &= had != null && cover.reach(f.toString(), new String(had, project.main.charset), new String(now, project.main.charset), touched);
        }
        Path scratch = home.resolve("scratch");
        MavenProject.delete(scratch);
        try {
            for (Path f : old.keySet()) {
                Files.createDirectories(f.getParent());
                Files.write(f, Base64.getDecoder().decode(files.get(root.relativize(f).toString())));
            }
            long began = System.nanoTime();
            List<String> dirs = new ArrayList<>();
            String broken = compile(main, test, scratch, dirs);
            long compiled = (System.nanoTime() - began) / 1000000;
            if (!broken.isEmpty()) {
                a.put("results", Collections.emptyList());
                a.put("ended", true);
                a.put("broken", broken);
                a.put("ms", compiled);
                return a;
            }
            dirs.addAll(project.folders);
            run(q, want, known ? touched : null, String.join(File.pathSeparator, dirs), a);
            a.put("ms", compiled + ((Number) a.get("ms")).longValue());
            a.put("compile_ms", compiled);
        } finally {
            for (Map.Entry<Path, byte[]> e : old.entrySet()) {
                if (e.getValue() == null) {
                    Files.deleteIfExists(e.getKey());
                } else {
                    Files.write(e.getKey(), e.getValue());
                    tree.put(e.getKey(), stamp(e.getKey()));
                }
            }
            a.put("dirty", tidy());
        }
        return a;
    }

    /** compile makes what differs from the healthy classes; dirs are where that lies. */
    private String compile(List<Path> main, List<Path> test, Path scratch, List<String> dirs) throws IOException {
        Path out = scratch.resolve("main/classes");
        boolean all = false;
        if (!main.isEmpty()) {
            String bad = project.compile(project.main, main, out, project.main.path);
            if (!bad.isEmpty()) {
                return bad;
            }
            if (all = !MavenFace.same(project.main.out, out)) {
                MavenProject.delete(out);
                List<String> path = new ArrayList<>(project.main.path);
                path.remove(project.main.out.toString());
                bad = project.compile(project.main, project.main.all(), out, path);
                if (!bad.isEmpty()) {
                    return bad;
                }
            }
            dirs.add(out.toString());
        }
        if (project.tests != null && (all || !test.isEmpty())) {
            Path tests = scratch.resolve("test/classes");
            List<String> path = new ArrayList<>(project.tests.path);
            path.remove(project.tests.out.toString());
            if (all) {
                path.remove(project.main.out.toString());
            }
            if (!main.isEmpty()) {
                path.add(0, out.toString());
            }
            String bad = project.compile(project.tests, project.tests.all(), tests, path);
            if (!bad.isEmpty()) {
                return bad;
            }
            dirs.add(0, tests.toString());
        }
        return "";
    }

    /** run has the tests run that pass what is touched; null: all may. */
    private void run(Map<?, ?> q, List<String> want, BitSet touched, String dirs, Map<String, Object> a) throws Exception {
        boolean stop = Boolean.TRUE.equals(q.get("stop"));
        List<String> first = want;
        List<String> rest = Collections.emptyList();
        if (touched != null) {
            // A test may pass by what another has left: the classes of those that get there run whole.
            List<String> chosen = want.stream().filter(t -> !tests.containsKey(t) || cover.passes("class " + tests.get(t).type, touched)).collect(Collectors.toList());
            a.put("chosen", chosen);
            first = chosen.stream().filter(t -> cover.passes(t, touched)).collect(Collectors.toList());
            rest = chosen.stream().filter(t -> !cover.passes(t, touched)).collect(Collectors.toList());
        }
        List<List<String>> parts = new ArrayList<>();
        String last = (String) q.get("last");
        if (stop) {
            first = new ArrayList<>(first);
            first.sort(Comparator.comparingLong(t -> tests.containsKey(t) ? tests.get(t).micros : 0));
            int size = 8;
            for (int at = 0; at < first.size(); size *= 4) {
                int end = Math.min(first.size(), at + size);
                parts.add(new ArrayList<>(first.subList(at, end)));
                at = end;
            }
            parts.add(new ArrayList<>(rest));
        } else {
            parts.add(new ArrayList<>(first));
            parts.get(0).addAll(rest);
        }
        if (last != null && !last.isEmpty() && want.contains(last)) {
            parts.forEach(p -> p.remove(last));
            parts.add(Collections.singletonList(last));
        }
        double most = ((Number) q.get("cpu")).doubleValue(), least = ((Number) q.get("least")).doubleValue();
        List<Double> allowed = new ArrayList<>(); // few quick tests may not take what the whole suite may
        List<String> words = new ArrayList<>(Arrays.asList("-1", stop ? "stop" : "", dirs));
        for (List<String> part : parts) {
            Map<String, Set<String>> byType = new LinkedHashMap<>();
            for (String id : part) {
                Known k = tests.get(id);
                if (k != null) {
                    byType.computeIfAbsent(k.type, x -> new LinkedHashSet<>()).addAll(k.keys.stream().map(this::selector).collect(Collectors.toList()));
                }
            }
            List<String> keys = byType.values().stream().flatMap(Set::stream).collect(Collectors.toList());
            if (!keys.isEmpty()) {
                words.add(String.join("\n", keys));
                long micros = part.stream().mapToLong(t -> tests.containsKey(t) ? tests.get(t).micros : 0).sum();
                allowed.add(Math.min(most, least + 3 * micros / 1e6));
            }
        }
        if (words.size() == 3) {
            a.put("results", Collections.emptyList());
            a.put("ended", true);
            a.put("ms", 0);
            return;
        }
        MavenJVM.Result r = jvm.run(words, ((Number) q.get("limit")).doubleValue(), most > 0 ? allowed : Collections.emptyList());
        if (!r.ended && !r.timed && jvm.uses > 1 && r.events.isEmpty()) { // perhaps by what an earlier run left behind
            renew();
            r = jvm.run(words, ((Number) q.get("limit")).doubleValue(), most > 0 ? allowed : Collections.emptyList());
        }
        if (!r.clean || jvm.uses >= USES) {
            renew();
        }
        Set<String> wanted = new HashSet<>(want);
        List<Object> results = new ArrayList<>();
        for (String[] e : r.events) {
            if (e[0].equals("e")) {
                String id = wanted.contains(e[1]) || !wanted.contains(shorter(e[1])) ? e[1] : shorter(e[1]);
                results.add(Arrays.asList(id, e[2], e[3]));
            }
        }
        a.put("results", results);
        a.put("running", wanted.contains(r.running) || !wanted.contains(shorter(r.running)) ? r.running : shorter(r.running));
        a.put("ended", r.ended);
        a.put("timed", r.timed);
        a.put("broken", "");
        a.put("crashed", r.broken);
        a.put("signal", r.signal);
        a.put("ms", r.millis);
        a.put("cpu", r.cpu);
    }

    private String selector(String key) {
        return key.startsWith("i:") ? key : "u:" + key;
    }

    private void renew() throws IOException {
        jvm.end();
        jvm = new MavenJVM(project, runner);
    }

    private static final int MOST = 20000; // files that are looked through after each run

    private Map<Path, String> files() throws IOException {
        Map<Path, String> m = new HashMap<>();
        Files.walkFileTree(project.dir, new SimpleFileVisitor<Path>() {
            @Override
            public FileVisitResult preVisitDirectory(Path d, BasicFileAttributes at) {
                return d.endsWith(".git") || d.endsWith(".m2") ? FileVisitResult.SKIP_SUBTREE : FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFile(Path f, BasicFileAttributes at) {
                m.put(f, at.size() + " " + at.lastModifiedTime().toMillis());
                return m.size() > MOST ? FileVisitResult.TERMINATE : FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFileFailed(Path f, IOException e) {
                return FileVisitResult.CONTINUE;
            }
        });
        return m;
    }

    private static String stamp(Path f) throws IOException {
        return Files.size(f) + " " + Files.getLastModifiedTime(f).toMillis();
    }

    /** tidy removes what a run has made; what it has changed of the tree is told. */
    private boolean tidy() throws IOException {
        try (Stream<Path> s = Files.list(Paths.get("/tmp"))) {
            for (Path f : s.filter(f -> !temporary.contains(f.getFileName().toString())).collect(Collectors.toList())) {
                MavenProject.delete(f);
            }
        }
        if (tree.size() > MOST) {
            return false;
        }
        boolean dirty = false;
        Map<Path, String> now = files();
        for (Map.Entry<Path, String> e : now.entrySet()) {
            String had = tree.get(e.getKey());
            if (had == null) {
                Files.deleteIfExists(e.getKey());
            } else if (!had.equals(e.getValue())) {
                dirty = true;
                tree.put(e.getKey(), e.getValue());
            }
        }
        for (Path f : new ArrayList<>(tree.keySet())) {
            if (!now.containsKey(f)) {
                dirty = true;
                tree.remove(f);
            }
        }
        return dirty;
    }
}

package assayjvm;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.tools.Diagnostic;
import javax.tools.DiagnosticCollector;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;

/** What Maven said of a project: how it compiles, and how Surefire starts the JVM of its tests. */
final class MavenProject {
    static final JavaCompiler JAVAC = ToolProvider.getSystemJavaCompiler();

    final Path home;
    final Path dir;
    final Map<String, String> env = new TreeMap<>();
    final List<String> jvm = new ArrayList<>(); // the JVM's own arguments
    final List<Path> propertyFiles = new ArrayList<>();
    final List<String> libraries = new ArrayList<>();
    final List<String> folders = new ArrayList<>(); // of the project's own classes
    final List<String> testClasses = new ArrayList<>();
    final String provider;
    final String parameters;
    final Sources main;
    final Sources tests; // null: Maven does not compile them when main sources have changed

    /** One call of the compiler. */
    static final class Sources {
        final List<String> options = new ArrayList<>();
        final List<Path> roots = new ArrayList<>();
        final List<String> path = new ArrayList<>();
        Path out;
        Charset charset = Charset.defaultCharset();
        StandardJavaFileManager files;

        boolean holds(Path p) {
            return p.toString().endsWith(".java") && roots.stream().anyMatch(p::startsWith);
        }

        List<Path> all() throws IOException {
            List<Path> list = new ArrayList<>();
            for (Path r : roots) {
                if (Files.isDirectory(r)) {
                    try (Stream<Path> s = Files.walk(r)) {
                        s.filter(p -> p.toString().endsWith(".java") && Files.isRegularFile(p)).sorted().forEach(list::add);
                    }
                }
            }
            return list;
        }
    }

    MavenProject(Path home) throws IOException {
        this.home = home;
        Path call = home.resolve("call");
        if (!Files.exists(call.resolve("args"))) {
            throw new IOException("Maven starts no JVM for its tests that can be stood for: " + ending(home.resolve("log")));
        }
        dir = Paths.get(text(call.resolve("pwd")).trim());
        for (String v : text(call.resolve("env")).split("\0")) {
            int eq = v.indexOf('=');
            if (eq > 0) {
                env.put(v.substring(0, eq), v.substring(eq + 1));
            }
        }
        without("MAVEN_OPTS", " -Dorg.slf4j.simpleLogger.log.");
        without("JAVA_TOOL_OPTIONS", " -javaagent:" + home);
        List<String> args = Arrays.asList(text(call.resolve("args")).split("\0"));
        int jar = args.indexOf("-jar");
        if (jar < 0) {
            throw new IOException("Surefire starts a JVM without a jar of its own: modules, or useManifestOnlyJar");
        }
        for (String a : args.subList(0, jar)) {
            if (!a.startsWith("-javaagent:") || !a.contains("jacoco")) { // that only measures
                jvm.add(a);
            }
        }
        Properties booter = null;
        for (String a : args.subList(jar + 2, args.size())) {
            Path f = call.resolve("surefire").resolve(Paths.get(a).getFileName());
            if (!Files.isRegularFile(f)) {
                continue;
            }
            Properties p = new Properties();
            try (InputStream in = new FileInputStream(f.toFile())) {
                p.load(in);
            }
            if (p.containsKey("providerConfiguration")) {
                booter = p;
            } else {
                propertyFiles.add(f);
            }
        }
        if (booter == null) {
            throw new IOException("Surefire hands its JVM no settings that are known");
        }
        provider = booter.getProperty("providerConfiguration");
        parameters = booter.getProperty("configurationParameters", "");
        for (String key : Arrays.asList("classPathUrl.", "surefireClassPathUrl.")) {
            for (int i = 0; booter.containsKey(key + i); i++) {
                String p = booter.getProperty(key + i);
                if (Files.isDirectory(Paths.get(p))) {
                    folders.add(p);
                } else {
                    libraries.add(p);
                }
            }
        }
        for (int i = 0; booter.containsKey("tc." + i); i++) {
            testClasses.add(booter.getProperty("tc." + i));
        }
        List<Sources> calls = compilers();
        if (calls.isEmpty()) {
            throw new IOException("it is not known how Maven compiles");
        }
        main = calls.get(0);
        tests = calls.size() > 1 ? calls.get(1) : null;
    }

    /** What Maven was called with for us is not for the tests. */
    private void without(String name, String ours) {
        String v = env.getOrDefault(name, "");
        int at = v.indexOf(ours);
        if (at == 0) {
            env.remove(name);
        } else if (at > 0) {
            env.put(name, v.substring(0, at));
        }
    }

    static String text(Path p) throws IOException {
        return new String(Files.readAllBytes(p), StandardCharsets.UTF_8);
    }

    private static String ending(Path p) throws IOException {
        List<String> lines = Files.exists(p) ? Arrays.asList(text(p).split("\n")) : Collections.emptyList();
        List<String> errors = lines.stream().filter(l -> l.contains("ERROR")).limit(5).collect(Collectors.toList());
        String said = String.join("\n", errors.isEmpty() ? lines.subList(Math.max(0, lines.size() - 5), lines.size()) : errors);
        return said.length() > 1500 ? said.substring(0, 1500) : said;
    }

    /** The compiler's calls, as Maven's plugin tells them. */
    private List<Sources> compilers() throws IOException {
        List<Sources> list = new ArrayList<>();
        boolean next = false;
        for (String line : text(home.resolve("log")).split("\n")) {
            if (next && line.contains("] -d ")) {
                Sources s = sources(line.substring(line.indexOf("] -d ") + 2).trim().split(" +"));
                boolean again = s == null;
                for (Sources had : list) {
                    again |= s != null && had.out.equals(s.out);
                }
                if (again) {
                    throw new IOException("it compiles by modules, or some of its classes twice");
                }
                list.add(s);
            }
            next = line.contains("Command line options:");
        }
        return list;
    }

    /** null: what is compiled so is more than classes in folders. */
    private static Sources sources(String[] words) {
        Sources s = new Sources();
        for (int i = 0; i < words.length; i++) {
            String value = i + 1 < words.length ? words[i + 1] : "";
            switch (words[i]) {
                case "-d":
                    s.out = Paths.get(value);
                    i++;
                    break;
                case "-classpath":
                case "-cp":
                case "--class-path":
                    s.path.addAll(parts(value));
                    i++;
                    break;
                case "-sourcepath":
                case "--source-path":
                    parts(value).forEach(p -> s.roots.add(Paths.get(p)));
                    i++;
                    break;
                case "-s":
                case "-h":
                    i++;
                    break;
                case "--module-path":
                case "-p":
                case "--module-source-path":
                case "--patch-module":
                    return null;
                case "-encoding":
                    s.charset = Charset.forName(value);
                    s.options.add(words[i]);
                    break;
                default:
                    if (!words[i].startsWith("-J")) {
                        s.options.add(words[i]);
                    }
            }
        }
        return s.out == null || s.roots.isEmpty() ? null : s;
    }

    private static List<String> parts(String path) {
        return Arrays.stream(path.split(File.pathSeparator)).filter(p -> !p.isEmpty()).collect(Collectors.toList());
    }

    /** Compiles as Maven does; what the compiler has against it, or "". */
    String compile(Sources s, List<Path> files, Path out, List<String> path) throws IOException {
        Files.createDirectories(out);
        if (files.isEmpty()) {
            return "";
        }
        DiagnosticCollector<JavaFileObject> said = new DiagnosticCollector<>();
        if (s.files == null) {
            s.files = JAVAC.getStandardFileManager(said, Locale.ROOT, s.charset);
        }
        List<String> options = new ArrayList<>(s.options);
        Collections.addAll(options, "-implicit:none", "-d", out.toString(), "-s", Files.createDirectories(out.resolveSibling("generated")).toString(),
            "-classpath", String.join(File.pathSeparator, path));
        List<File> list = files.stream().map(Path::toFile).collect(Collectors.toList());
        boolean ok = JAVAC.getTask(null, s.files, said, options, null, s.files.getJavaFileObjectsFromFiles(list)).call();
        if (ok) {
            return "";
        }
        StringBuilder b = new StringBuilder();
        for (Diagnostic<? extends JavaFileObject> d : said.getDiagnostics()) {
            if (d.getKind() == Diagnostic.Kind.ERROR && b.length() < 3000) {
                String file = d.getSource() == null ? "" : dir.relativize(Paths.get(d.getSource().toUri())).toString();
                b.append(file).append(':').append(d.getLineNumber()).append(": ").append(d.getMessage(Locale.ROOT)).append('\n');
            }
        }
        return b.length() == 0 ? "the compiler fails" : b.toString();
    }

    static void delete(Path p) throws IOException {
        if (!Files.exists(p)) {
            return;
        }
        try (Stream<Path> s = Files.walk(p)) {
            for (Path f : s.sorted(Collections.reverseOrder()).collect(Collectors.toList())) {
                Files.deleteIfExists(f);
            }
        }
    }
}

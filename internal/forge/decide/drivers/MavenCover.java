package assayjvm;

import com.sun.source.tree.BlockTree;
import com.sun.source.tree.CaseTree;
import com.sun.source.tree.ClassTree;
import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.tree.ExpressionStatementTree;
import com.sun.source.tree.MethodInvocationTree;
import com.sun.source.tree.StatementTree;
import com.sun.source.tree.Tree;
import com.sun.source.util.JavacTask;
import com.sun.source.util.SourcePositions;
import com.sun.source.util.TreeScanner;
import com.sun.source.util.Trees;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Which statements the tests of each class pass. Sources are watched by calls that are written before their statements. */
final class MavenCover {
    /** A statement, or a body, and its probe. */
    static final class Span {
        final long from;
        final long to;
        final int probe;

        Span(long from, long to, int probe) {
            this.from = from;
            this.to = to;
            this.probe = probe;
        }
    }

    final Map<String, List<Span>> spans = new HashMap<>(); // by path
    final Map<String, BitSet> hits = new LinkedHashMap<>(); // by test, and by class of tests
    int probes;

    /** watch writes copies of sources that tell what they pass, with their old line breaks. */
    List<Path> watch(MavenProject.Sources s, List<Path> files, Path root) throws IOException {
        JavacTask task = (JavacTask) MavenProject.JAVAC.getTask(null, null, d -> {}, Arrays.asList("-proc:none"), null,
            MavenProject.JAVAC.getStandardFileManager(null, null, s.charset).getJavaFileObjectsFromFiles(toFiles(files)));
        SourcePositions at = Trees.instance(task).getSourcePositions();
        List<Path> out = new ArrayList<>();
        int n = 0;
        for (CompilationUnitTree unit : task.parse()) {
            Path file = java.nio.file.Paths.get(unit.getSourceFile().toUri());
            String text = new String(Files.readAllBytes(file), s.charset);
            Finder f = new Finder(unit, at);
            f.scan(unit, null);
            StringBuilder b = new StringBuilder(text);
            for (Map.Entry<Integer, Integer> e : f.inserts.descendingMap().entrySet()) {
                b.insert(e.getKey(), "assayjvm.MavenProbe.at(" + e.getValue() + ");");
            }
            spans.put(file.toString(), f.found);
            Path copy = root.resolve(String.valueOf(n++)).resolve(file.getFileName());
            Files.createDirectories(copy.getParent());
            Files.write(copy, b.toString().getBytes(s.charset));
            out.add(copy);
        }
        return out;
    }

    private static List<java.io.File> toFiles(List<Path> files) {
        List<java.io.File> out = new ArrayList<>();
        files.forEach(p -> out.add(p.toFile()));
        return out;
    }

    private final class Finder extends TreeScanner<Void, Void> {
        private final CompilationUnitTree unit;
        private final SourcePositions at;
        final TreeMap<Integer, Integer> inserts = new TreeMap<>();
        final List<Span> found = new ArrayList<>();

        Finder(CompilationUnitTree unit, SourcePositions at) {
            this.unit = unit;
            this.at = at;
        }

        private void probe(long where, Tree t) {
            long from = at.getStartPosition(unit, t), to = at.getEndPosition(unit, t);
            if (from < 0 || to < 0 || where < 0) {
                return;
            }
            Integer had = inserts.get((int) where);
            int p = had == null ? probes++ : had;
            inserts.put((int) where, p);
            found.add(new Span(from, to, p));
        }

        private void all(List<? extends StatementTree> list) {
            for (StatementTree s : list) {
                if (!(s instanceof ClassTree) && !constructor(s)) {
                    probe(at.getStartPosition(unit, s), s);
                }
            }
        }

        private boolean constructor(StatementTree s) {
            if (!(s instanceof ExpressionStatementTree) || !(((ExpressionStatementTree) s).getExpression() instanceof MethodInvocationTree)) {
                return false;
            }
            String name = ((MethodInvocationTree) ((ExpressionStatementTree) s).getExpression()).getMethodSelect().toString();
            return name.equals("this") || name.equals("super") || name.endsWith(".super");
        }

        @Override
        public Void visitBlock(BlockTree b, Void v) {
            List<? extends StatementTree> list = b.getStatements();
            boolean early = !list.isEmpty() && constructor(list.get(0));
            if (!early) { // also what is empty has a place
                long brace = brace(at.getStartPosition(unit, b));
                probe(brace < 0 ? -1 : brace + 1, b);
            }
            all(list);
            return super.visitBlock(b, v);
        }

        private long brace(long from) {
            try {
                return unit.getSourceFile().getCharContent(true).toString().indexOf('{', (int) from);
            } catch (IOException e) {
                return -1;
            }
        }

        @Override
        public Void visitCase(CaseTree c, Void v) {
            if (c.getStatements() != null) {
                all(c.getStatements());
            }
            return super.visitCase(c, v);
        }

        @Override
        public Void visitClass(ClassTree c, Void v) {
            // What stands in a class and in no body of it runs when it is loaded or made: nobody knows for whom.
            long from = at.getStartPosition(unit, c), to = at.getEndPosition(unit, c);
            if (from >= 0 && to >= 0) {
                found.add(new Span(from, to, -1));
            }
            return super.visitClass(c, v);
        }
    }

    /** Who passes what changes of a file touch; false: that is not known. */
    boolean reach(String file, String old, String now, BitSet into) {
        List<Span> list = spans.get(file);
        if (list == null) {
            return false;
        }
        int a = 0, end = Math.min(old.length(), now.length());
        while (a < end && old.charAt(a) == now.charAt(a)) {
            a++;
        }
        int tail = 0;
        while (tail < end - a && old.charAt(old.length() - 1 - tail) == now.charAt(now.length() - 1 - tail)) {
            tail++;
        }
        long b = old.length() - tail;
        Span inner = null;
        for (Span s : list) {
            boolean in = a == b ? s.from < a && b < s.to : s.from <= a && b <= s.to;
            if (in && (inner == null || s.to - s.from < inner.to - inner.from)) {
                inner = s;
            }
        }
        if (inner == null || inner.probe < 0) {
            return false;
        }
        into.set(inner.probe);
        return true;
    }

    void add(String name, String list) {
        BitSet b = hits.computeIfAbsent(name, k -> new BitSet());
        for (String n : list.split(" ")) {
            if (!n.isEmpty()) {
                b.set(Integer.parseInt(n));
            }
        }
    }

    boolean passes(String name, BitSet probes) {
        BitSet b = hits.get(name);
        return b == null || b.intersects(probes);
    }

    void save(Path p) throws IOException {
        try (BufferedWriter w = Files.newBufferedWriter(p)) {
            for (Map.Entry<String, List<Span>> e : spans.entrySet()) {
                StringBuilder b = new StringBuilder("f " + MavenWorker.encode(e.getKey()));
                e.getValue().forEach(s -> b.append(' ').append(s.from).append(',').append(s.to).append(',').append(s.probe));
                w.write(b.append('\n').toString());
            }
            for (Map.Entry<String, BitSet> e : hits.entrySet()) {
                StringBuilder b = new StringBuilder("h " + MavenWorker.encode(e.getKey()));
                e.getValue().stream().forEach(n -> b.append(' ').append(n));
                w.write(b.append('\n').toString());
            }
        }
    }

    static MavenCover load(Path p) throws IOException {
        MavenCover c = new MavenCover();
        for (String line : Files.exists(p) ? Files.readAllLines(p) : Collections.<String>emptyList()) {
            String[] w = line.split(" ");
            String name = MavenWorker.decode(w[1]);
            for (int i = 2; i < w.length; i++) {
                if (w[0].equals("f")) {
                    String[] n = w[i].split(",");
                    c.spans.computeIfAbsent(name, k -> new ArrayList<>()).add(new Span(Long.parseLong(n[0]), Long.parseLong(n[1]), Integer.parseInt(n[2])));
                } else {
                    c.add(name, w[i]);
                }
            }
            if (w[0].equals("h")) {
                c.add(name, "");
            }
        }
        return c;
    }
}

package assayjvm;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** What other classes are compiled against: where a change leaves it, no other source need be compiled. */
final class MavenFace {
    private MavenFace() {}

    private static final int PRIVATE = 0x0002, SYNTHETIC = 0x1000;

    /** Whether the classes below now show others what those of the same sources below old show. */
    static boolean same(Path old, Path now) throws IOException {
        Set<String> sources = new TreeSet<>();
        TreeMap<String, Path> fresh = new TreeMap<>();
        try (Stream<Path> s = Files.walk(now)) {
            for (Path p : s.filter(f -> f.toString().endsWith(".class")).collect(Collectors.toList())) {
                String name = now.relativize(p).toString();
                sources.add(name.substring(0, name.length() - ".class".length()).split("\\$")[0]);
                fresh.put(name, p);
            }
        }
        for (String source : sources) {
            Path first = old.resolve(source + ".class");
            if (!Files.isDirectory(first.getParent())) {
                return false;
            }
            String prefix = first.getFileName().toString().replace(".class", "");
            List<Path> had;
            try (Stream<Path> s = Files.list(first.getParent())) {
                had = s.filter(f -> f.getFileName().toString().equals(prefix + ".class") || f.getFileName().toString().startsWith(prefix + "$")).collect(Collectors.toList());
            }
            for (Path p : had) {
                String name = old.relativize(p).toString();
                if (!anonymous(name) && !fresh.containsKey(name)) {
                    return false;
                }
            }
        }
        for (String name : fresh.keySet()) {
            if (anonymous(name)) {
                continue;
            }
            Path p = old.resolve(name);
            if (!Files.exists(p) || !of(Files.readAllBytes(p)).equals(of(Files.readAllBytes(fresh.get(name))))) {
                return false;
            }
        }
        return true;
    }

    private static boolean anonymous(String name) {
        return name.matches(".*\\$\\d.*");
    }

    /** A class file without its code and without what is private. */
    static String of(byte[] b) throws IOException {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(b));
        in.skipBytes(8);
        Object[] pool = new Object[in.readUnsignedShort()];
        for (int i = 1; i < pool.length; i++) {
            int tag = in.readUnsignedByte();
            switch (tag) {
                case 1: pool[i] = in.readUTF(); break;
                case 3: pool[i] = "int " + in.readInt(); break;
                case 4: pool[i] = "float " + in.readInt(); break;
                case 5: pool[i++] = "long " + in.readLong(); break;
                case 6: pool[i++] = "double " + in.readLong(); break;
                case 7: case 8: case 16: case 19: case 20: pool[i] = in.readUnsignedShort(); break;
                case 15: in.skipBytes(3); break;
                case 9: case 10: case 11: case 12: case 17: case 18: in.skipBytes(4); break;
                default: throw new IOException("a constant of kind " + tag);
            }
        }
        StringBuilder out = new StringBuilder();
        out.append(in.readUnsignedShort()).append(' ').append(name(pool, in.readUnsignedShort())).append(' ').append(name(pool, in.readUnsignedShort()));
        String[] interfaces = new String[in.readUnsignedShort()];
        for (int i = 0; i < interfaces.length; i++) {
            interfaces[i] = name(pool, in.readUnsignedShort());
        }
        out.append(Arrays.toString(interfaces));
        for (int kind = 0; kind < 2; kind++) { // fields, methods
            Set<String> members = new TreeSet<>();
            for (int n = in.readUnsignedShort(); n > 0; n--) {
                int access = in.readUnsignedShort();
                String m = kind + " " + access + " " + pool[in.readUnsignedShort()] + " " + pool[in.readUnsignedShort()] + attributes(in, pool);
                if ((access & (PRIVATE | SYNTHETIC)) == 0) {
                    members.add(m);
                }
            }
            out.append(members);
        }
        return out.append(attributes(in, pool)).toString();
    }

    private static String name(Object[] pool, int i) {
        return i == 0 ? "" : String.valueOf(pool[(Integer) pool[i]]);
    }

    private static String attributes(DataInputStream in, Object[] pool) throws IOException {
        StringBuilder out = new StringBuilder();
        for (int n = in.readUnsignedShort(); n > 0; n--) {
            String name = String.valueOf(pool[in.readUnsignedShort()]);
            byte[] data = new byte[in.readInt()];
            in.readFully(data);
            DataInputStream d = new DataInputStream(new ByteArrayInputStream(data));
            switch (name) {
                case "ConstantValue": {
                    Object v = pool[d.readUnsignedShort()];
                    out.append(" =").append(v instanceof Integer ? pool[(Integer) v] : v); // a string's is one more step away
                    break;
                }
                case "Signature":
                    out.append(" <").append(pool[d.readUnsignedShort()]);
                    break;
                case "Exceptions":
                    for (int k = d.readUnsignedShort(); k > 0; k--) {
                        out.append(" throws ").append(name(pool, d.readUnsignedShort()));
                    }
                    break;
                default:
            }
        }
        return out.toString();
    }
}
